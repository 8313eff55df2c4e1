"""Load the two sides of a difference.

A side is a target, a target at a git revision, a saved derivation, or a store of them.

Each target is derived in a separate process, because two versions of a file import modules of the same names. A revision is
unpacked into a new directory. Where code of the working tree is imported nevertheless, the side is refused.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ioaware
from ioaware import strict_json
from ioaware.errors import DataError, IoawareError, MachineError, UsageError
from ioaware.gate.row import Row, row_of
from ioaware.gate.verdict import BaselineError

LARGEST_DOCUMENT = 64 * 2**20
TIMEOUT_S = 3600.0
SAVED = (".json", ".db", ".sqlite")
"""Ends of files with rows."""
REMEDY = "A side is a target, REVISION:file.py:function, or a file that `ioaware derive --json -o` wrote."


@dataclass(frozen=True, slots=True)
class Request:
    """Options of each derivation.

    They are parameters in text, the GPU compiled for, and a configuration of autotuned kernels.
    """

    params: Mapping[str, str]
    gpu: str
    config: Mapping[str, str]
    timeout_s: float = TIMEOUT_S


def rows_of_sides(sides: Sequence[str], request: Request) -> list[list[Row]]:
    """Return the rows of each side. Targets are derived at the same time.

    Raises an `IoawareError` for a side that has none, and for parameters where no side is a target.
    """
    saved = {side: _saved_rows(side) for side in sides if side.endswith(SAVED)}  # in one thread: msgspec's types need it
    if saved.keys() == set(sides) and (request.params or request.config):
        name, value = next(iter({**request.params, **request.config}.items()))
        raise UsageError(f"{name}={value} changes nothing: both sides are saved", "Leave it out, or name a target.")
    derived = [side for side in sides if side not in saved]
    with ThreadPoolExecutor(max_workers=2) as threads:
        found = threads.map(partial(_derived_rows, request=request), derived)
        rows = saved | dict(zip(derived, found, strict=True))
    return [rows[side] for side in sides]


def _saved_rows(side: str) -> list[Row]:
    return [read_row(Path(side))] if side.endswith(".json") else _stored_rows(Path(side))


def _derived_rows(side: str, request: Request) -> list[Row]:
    revision, spec = _revision_of(side)
    if revision is None:
        return [_derived(side, request, Path.cwd(), None)]
    with tempfile.TemporaryDirectory(prefix="ioaware-") as folder:
        top, here = _unpack(revision, Path(folder))
        try:
            return [_derived(spec, request, here, (str(top), folder))]
        except IoawareError as error:
            error.what = f"{revision}: {error.what}"
            raise


def read_row(path: Path) -> Row:
    """Return the row of a file that `ioaware derive --json -o` wrote.

    Raises `BaselineError` or `DataError`.
    """
    if not strict_json.is_there(path):
        raise BaselineError(f"there is no file {path}", REMEDY)
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_DOCUMENT + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})", "Check the path and its permissions.") from error
    return row_of_text(content, str(path))


def row_of_text(content: bytes, where: str) -> Row:
    """Return the row of a document in JSON. Raises `DataError` for anything else."""
    try:
        if len(content) > LARGEST_DOCUMENT:
            raise ValueError(f"more than {LARGEST_DOCUMENT} bytes")
        return row_of(strict_json.loads(content), where)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not what `ioaware derive --json` prints ({str(error)[:200]})", "Derive it again.") from error


def _stored_rows(path: Path) -> list[Row]:
    from ioaware.sweep.store import Store

    with Store(path, readonly=True) as store:
        documents = [result.to_dict() for result in store.results() if result.source == "derive"]
    if not documents:
        raise BaselineError(f"{path} holds no derived result", "Sweep a study with the source derive into it.")
    return [row_of(document, str(path)) for document in documents]


def _revision_of(side: str) -> tuple[str | None, str]:
    """Split `REVISION:file.py:function`; a side with one colon has no revision."""
    revision, _, spec = side.partition(":")
    return (revision, spec) if spec.count(":") == 1 and spec.partition(":")[0].endswith(".py") else (None, side)


def _git(*arguments: str, quiet: str = "failed") -> bytes:
    """Run git; `quiet` says what failed where git does not."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=False, timeout=300)  # noqa: S603, S607
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError("git cannot be run, and a revision needs it", "Install git, or name two files.") from error
    if done.returncode:
        message = done.stderr.decode(errors="replace").strip().splitlines()
        raise UsageError(f"git {arguments[0]}: {message[-1] if message else quiet}", REMEDY)
    return done.stdout


def _unpack(revision: str, folder: Path) -> tuple[Path, Path]:
    """Unpack a revision of the repository.

    The result is the top of the working tree, and the unpacked counterpart of this directory.
    """
    found = _git(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", quiet=f"no revision {revision}"
    )
    commit = found.decode().strip()
    top = Path(_git("rev-parse", "--show-toplevel").decode().rstrip("\n"))
    packed = folder.with_name(f"{folder.name}.tar")
    try:
        _git("-C", str(top), "archive", "--format=tar", f"--output={packed}", commit)
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
    finally:
        packed.unlink(missing_ok=True)
    here = folder / Path.cwd().resolve().relative_to(top.resolve())
    if not here.is_dir():
        raise UsageError(f"{revision} has no directory {here.relative_to(folder)}", REMEDY)
    return top, here


def _derived(spec: str, request: Request, here: Path, moved: tuple[str, str] | None) -> Row:
    """Derive a target in a separate process, which runs this ioaware and no other."""
    question: dict[str, Any] = {
        "target": spec,
        "params": dict(request.params),
        "gpu": request.gpu,
        "config": dict(request.config),
        "moved": moved,
    }
    package = str(Path(ioaware.__file__).resolve().parents[1])
    paths = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    command = [sys.executable, "-P", "-m", "ioaware.gate.side_worker", json.dumps(question)]
    try:
        done = subprocess.run(  # noqa: S603 - this Python and this package
            command,
            cwd=here,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            timeout=request.timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{spec} took longer than {request.timeout_s} s", "Raise --timeout.") from error
    return _answer(spec, done.returncode, done.stdout, done.stderr)


def _answer(spec: str, code: int, output: bytes, errors: bytes) -> Row:
    """Return the row in the last line that the worker printed, or raise its error."""
    line = output.splitlines()[-1] if output.strip() else b""
    try:
        answer = strict_json.loads(line)
        if code == 0 and "row" in answer:
            return row_of(answer["row"], spec)
        what, remedy, exit_code = answer["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        last = errors.decode(errors="replace").strip().splitlines()
        what, remedy, exit_code = (
            f"{spec} ended with code {code}: {last[-1] if last else 'no output'}",
            "",
            UsageError.exit_code,
        )
    error = IoawareError(str(what), str(remedy))
    error.exit_code = int(exit_code)
    raise error
