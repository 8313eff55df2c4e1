"""What took long to find out about a kernel, kept on disk by the hash of everything that it follows from.

A file holds one finding as JSON with its checksum. Whatever is wrong with a file, it is as if it were not there: a finding can
always be made again. `IOAWARE_CACHE_DIR` says where (empty: nowhere), else it is the user's cache directory.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

LARGEST_BYTES = 64 * 2**20
"""All files together; when a process keeps its first finding, the oldest beyond half of it are dropped."""
LARGEST_FILE_BYTES = 4 * 2**20


def directory(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where findings are kept: None where nobody wants any."""
    given = environment.get("IOAWARE_CACHE_DIR")
    if given is not None:
        return Path(given) if given else None
    if sys.platform == "win32":
        base = environment.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = environment.get("XDG_CACHE_HOME") or "~/.cache"
    with suppress(RuntimeError):  # nobody's home
        return Path(base or "~").expanduser() / "ioaware"
    return None


def name_of(parts: Iterable[str]) -> str:
    """The name of what follows from these texts."""
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()


def find(name: str) -> Any:
    """What is kept by this name; None where nothing is, or nothing that can be read."""
    path = _path(name)
    if path is None:
        return None
    with suppress(OSError, ValueError, RecursionError, TypeError, KeyError):
        if path.stat().st_size <= LARGEST_FILE_BYTES:
            text = json.loads(path.read_text(encoding="utf-8"))
            if _checksum(text["finding"]) == text["sha256"]:
                return json.loads(text["finding"])
    return None


def keep(name: str, finding: Any) -> None:
    """Keeps JSON by this name, whole or not at all; a directory that cannot be written keeps nothing."""
    path = _path(name)
    if path is None:
        return
    said = json.dumps(finding)
    text = json.dumps({"sha256": _checksum(said), "finding": said})
    if len(text) > LARGEST_FILE_BYTES:
        return
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, suffix=".partial")
        try:
            with open(handle, "w", encoding="utf-8") as file:  # noqa: PTH123 - a handle that is open already
                file.write(text)
            os.replace(partial, path)  # noqa: PTH105
        except OSError:
            os.unlink(partial)  # noqa: PTH108
            raise
        tidied(path.parent)


def _path(name: str) -> Path | None:
    place = directory()
    return None if place is None else place / f"{name}.json"


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def tidied(place: Path) -> None:
    """Drops the files that were kept longest ago, until the others fill half of what is allowed; once a process."""
    files: list[tuple[float, int, Path]] = []
    for entry in os.scandir(place):
        with suppress(OSError):  # another process has dropped it
            if entry.name.endswith((".json", ".partial")):
                files.append((entry.stat().st_mtime, entry.stat().st_size, Path(entry.path)))
    total = sum(size for _, size, _ in files)
    if total <= LARGEST_BYTES:
        return
    for _, size, path in sorted(files):
        if total <= LARGEST_BYTES // 2:
            break
        path.unlink(missing_ok=True)
        total -= size


@cache
def own_code() -> str:
    """A hash of the code that makes findings: this package, and what it computes with."""
    import sympy

    root = Path(__file__).parent
    digest = hashlib.sha256(f"{sys.version_info[:2]} {cast(Any, sympy).__version__}".encode())
    for path in sorted(root.rglob("*.py")):
        digest.update(f"\0{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()
