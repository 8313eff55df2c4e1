"""Write a file beside its final path, then rename it into place."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(path: Path) -> Generator[Path]:
    """Yield a temporary path that replaces `path` when the block succeeds.

    A failure leaves the old file. A symbolic link stays, and its target is replaced. A device or a pipe is written
    directly, because a rename would put a file in its place. Raises `OSError`.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    place = Path(os.path.realpath(path))
    partial = place.with_name(place.name + ".partial")
    try:
        yield partial
        partial.replace(place)
    finally:
        partial.unlink(missing_ok=True)
