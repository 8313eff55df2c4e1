"""Ask a checkout everything of `questions`.

The processes import the checkout's package and nothing else's.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from questions import LIBRARIES, Derivation, Session, code, foreign, formulas, sessions

HERE = Path(__file__).parent
DERIVATION_S = 900
"""Time limit of a derivation, and of a command line."""
SOFTWARE = ("torch", "triton", "sympy", "numpy")
MASKED = frozenset({"environment", "commit", "time_ns", "timing", "telemetry", "host", "path", "store"})
"""Fields of a JSON output that differ between runs or between checkouts."""
Answers = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout, and an empty folder for the caches of this dump.

    Nothing derived at another time is found there.
    """

    path: Path
    scratch: Path
    jobs: int = 1
    match: str = ""
    """Only derivations whose key contains this."""

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every process that is asked."""
        caches = {"IOAWARE_CACHE_DIR": "ioaware", "TRITON_CACHE_DIR": "triton", "XDG_CACHE_HOME": "cache"}
        kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        folders = {name: str(self.scratch / folder) for name, folder in caches.items()}
        fixed = {"PYTHONPATH": str(self.path), "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
        return {**kept, **folders, **fixed}


def header(checkout: Checkout) -> dict[str, Any]:
    """Describe what was asked: commit, changed files and versions.

    It says whether files differ from the commit. The versions are those that answers depend on.
    """
    versions = "import importlib.metadata as m, json, sys; print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"
    software = json.loads(_output(checkout, [sys.executable, "-c", versions, *SOFTWARE]))
    git = ["git", "-C", str(checkout.path)]
    changed = _output(checkout, [*git, "status", "--porcelain"]).splitlines()
    return {
        "commit": _output(checkout, [*git, "rev-parse", "HEAD"]).strip(),
        "changed_files": changed,
        "match": checkout.match,
        "software": {"python": sys.version.partition(" ")[0], **software},
    }


def ask_formulas(checkout: Checkout, known: Answers) -> Iterator[Answers]:
    """Derive the cases and the points of the studies."""
    command = [sys.executable, str(HERE / "package_worker.py"), "points", str(checkout.path)]
    return derive_all(checkout, formulas(json.loads(_output(checkout, command))), known)


def ask_foreign(checkout: Checkout, known: Answers) -> Iterator[Answers]:
    """Derive the third-party targets of the libraries in the environment.

    The environment names the checkouts of these libraries.
    """
    libraries = [name for name in LIBRARIES if os.environ.get(f"FOREIGN_{name.upper()}")]
    return derive_all(checkout, foreign(checkout.path, libraries), known)


def ask_code(checkout: Checkout, known: Answers) -> Iterator[Answers]:
    """Compile the attention kernels for sm_90."""
    return derive_all(checkout, code(), known)


def ask_json(checkout: Checkout, known: Answers) -> Iterator[Answers]:
    """Run the command lines."""
    del known  # a session's command lines need one another
    with ThreadPoolExecutor(checkout.jobs) as pool:
        yield from pool.map(lambda session: run_session(checkout, session), sessions())


def ask_records(checkout: Checkout, known: Answers) -> Iterator[Answers]:
    """Read the recorded files."""
    del known
    command = [sys.executable, str(HERE / "package_worker.py"), "records", str(checkout.path)]
    yield json.loads(_output(checkout, command))


SECTIONS: Mapping[str, Callable[[Checkout, Answers], Iterator[Answers]]] = {
    "formulas": ask_formulas,
    "foreign": ask_foreign,
    "code": ask_code,
    "json": ask_json,
    "records": ask_records,
}


def _output(checkout: Checkout, command: Sequence[str]) -> str:
    """Return what a command prints.

    Raises `RuntimeError` with what it says when it fails.
    """
    done = subprocess.run(  # noqa: S603
        command, env=checkout.environment, cwd=checkout.scratch, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def derive_all(checkout: Checkout, derivations: Iterable[Derivation], known: Answers) -> Iterator[Answers]:
    """Yield the answers batch by batch, `checkout.jobs` batches at a time.

    Those known are not asked for again.
    """
    missing = (one for one in derivations if checkout.match in one.key and "crashed" in known.get(one.key, {"crashed": ""}))
    ordered = sorted(missing, key=lambda one: one.batch)
    batches = [list(batch) for _, batch in groupby(ordered, key=lambda one: one.batch)]
    with ThreadPoolExecutor(checkout.jobs) as pool:
        running = {pool.submit(derive_batch, checkout, batch): batch for batch in batches}
        for done in as_completed(running):
            yield dict(zip((one.key for one in running[done]), done.result(), strict=True))


def derive_batch(checkout: Checkout, batch: Sequence[Derivation]) -> list[Any]:
    """Derive in one process.

    One that dies or exceeds its time is an answer, and another process goes on behind it.
    """
    answers: list[Any] = []
    while len(answers) < len(batch):
        rest = batch[len(answers) :]
        answers += derive_in_process(checkout, rest)
    return answers


def derive_in_process(checkout: Checkout, batch: Sequence[Derivation]) -> list[Any]:
    """Return the answers of one process.

    These are all of the batch, or those up to one that killed the process or was killed.
    """
    command = [sys.executable, str(HERE / "derive_worker.py"), str(checkout.path)]
    own = checkout.scratch / f"worker-{threading.get_ident()}"
    jobs, said = own.with_suffix(".jobs"), own.with_suffix(".stderr")
    jobs.write_text("".join(json.dumps(one.to_job()) + "\n" for one in batch), encoding="utf-8")
    answers: list[Any] = []
    began = time.monotonic()
    with jobs.open("rb") as stdin, said.open("wb") as stderr:
        worker = subprocess.Popen(  # noqa: S603
            command, env=checkout.environment, cwd=checkout.scratch, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr
        )
    with worker:
        for one, line in zip(batch, _lines_in_time(worker, len(batch)), strict=True):
            if not line:
                problem = said.read_text(encoding="utf-8", errors="replace")[-500:]
                return [*answers, {"crashed": "process", "problem": problem or f"killed, or not done after {DERIVATION_S} s"}]
            answers.append(json.loads(line))
            print(f"{time.monotonic() - began:6.1f} s  {one.key}", file=sys.stderr, flush=True)
    return answers


def _lines_in_time(worker: subprocess.Popen[bytes], count: int) -> Iterator[bytes]:
    """Yield so many lines of the worker's stdout.

    The worker is killed when a line takes too long. A line is empty when the worker is dead.
    """
    for _ in range(count):
        timer = threading.Timer(DERIVATION_S, worker.kill)
        timer.start()
        line = worker.stdout.readline() if worker.stdout else b""
        timer.cancel()
        yield line


def run_session(checkout: Checkout, session: Session) -> Answers:
    """Run the command lines of a session in order; the answers by command line."""
    folder = checkout.scratch / "sessions" / session.name
    folder.mkdir(parents=True)
    for name, text in session.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    answers: Answers = {}
    for number, line in enumerate(session.commands):
        words = shlex.split(line)
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "ioaware", *words], env=checkout.environment, cwd=folder, capture_output=True, text=True,
            timeout=DERIVATION_S, check=False,
        )  # fmt: skip
        again = f" (run {number + 1})" if line in session.commands[:number] else ""
        shown, remark = _shown(words, done.stdout, folder), without_progress(done.stderr)
        answers[line + again] = {"exit": done.returncode, **shown, "remark": remark}
        print(f"{line}: exit {done.returncode}", file=sys.stderr, flush=True)
    return answers


def without_progress(text: str) -> str:
    """Leave out the lines that count what is done.

    Which of them are written depends on time.
    """
    return "\n".join(line for line in text.splitlines() if not re.match(r"\d+/\d+ ", line))


def _shown(words: Sequence[str], output: str, folder: Path) -> Answers:
    """Return what a command line gave.

    This is JSON, the file that it wrote, or the options that its help names.
    """
    if "--json" in words and output:
        return {"output": masked(json.loads(output))}
    if "--help" in words:
        return {"options": sorted(set(re.findall(r"--[a-z-]+", output)))}
    if words[0] == "export" and (file := folder / words[-1]).exists():
        return {"output": list(exported(file))}
    return {"remark_on_stdout": output}


def exported(file: Path) -> Iterator[Any]:
    """Yield the records of an exported file."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines) if file.suffix == ".csv" else map(json.loads, lines)
        yield from map(masked, rows)


def masked(value: Any) -> Any:
    """Leave out what differs from run to run.

    Of a line of source, its number and text are left out: both move when it is edited.
    """
    if isinstance(value, dict):
        dropped = MASKED | ({"line", "source"} if "line" in value else set())
        return {name: masked(item) for name, item in value.items() if name.partition(".")[0] not in dropped}
    return [masked(item) for item in value] if isinstance(value, list) else value
