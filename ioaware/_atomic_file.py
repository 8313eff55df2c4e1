"""Files that appear whole: written beside their place and renamed, so that no reader ever sees half of one."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Generator[Path]:
    """Yields where to write what shall be at `path` once the block has succeeded; a failure leaves what was there.

    A link stays one, its target is replaced. A device or a pipe is written itself: a rename would put a file in its
    place, for root /dev/null too. Raises `OSError` as the system says it.
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
