"""Cache derived results on disk by a hash of their inputs.

A file holds one value as JSON with its checksum. A file that is missing, damaged or too large is a cache miss.
`IOAWARE_CACHE_DIR` sets the directory (empty: no cache); the default is the user's cache directory.
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
"""Limit of all files together.

Beyond it, the first write of a process evicts the oldest files down to half of it.
"""
LARGEST_FILE_BYTES = 4 * 2**20


def directory(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the cache directory, or None where the cache is disabled."""
    given = environment.get("IOAWARE_CACHE_DIR")
    if given is not None:
        return Path(given) if given else None
    if sys.platform == "win32":
        base = environment.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = environment.get("XDG_CACHE_HOME") or "~/.cache"
    with suppress(RuntimeError):  # no home directory
        return Path(base or "~").expanduser() / "ioaware"
    return None


def cache_key(parts: Iterable[str]) -> str:
    """Return the SHA-256 of these texts."""
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()


def load(name: str) -> Any:
    """Return the value stored under this key.

    None where there is none or it cannot be read.
    """
    path = _path(name)
    if path is None:
        return None
    with suppress(OSError, ValueError, RecursionError, TypeError, KeyError):
        if path.stat().st_size <= LARGEST_FILE_BYTES:
            text = json.loads(path.read_text(encoding="utf-8"))
            if _checksum(text["value"]) == text["sha256"]:
                return json.loads(text["value"])
    return None


def store(name: str, value: Any) -> None:
    """Store a JSON value under this key, atomically.

    Do nothing where the directory cannot be written.
    """
    path = _path(name)
    if path is None:
        return
    encoded = json.dumps(value)
    text = json.dumps({"sha256": _checksum(encoded), "value": encoded})
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
        evict_oldest(path.parent)


def _path(name: str) -> Path | None:
    place = directory()
    return None if place is None else place / f"{name}.json"


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def evict_oldest(place: Path) -> None:
    """Delete the oldest files until half of the limit is used. Runs once per process."""
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
    """Return a hash of the code that computes the values.

    The code is this package, Python and sympy.
    """
    import sympy

    root = Path(__file__).parent
    digest = hashlib.sha256(f"{sys.version_info[:2]} {cast(Any, sympy).__version__}".encode())
    for path in sorted(root.rglob("*.py")):
        digest.update(f"\0{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()
