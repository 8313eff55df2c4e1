"""Postpone full garbage collections during imports and derivations.

Libraries are imported and formulas derived meanwhile. The collection of a process that ends is left out.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Generator
from contextlib import contextmanager

THRESHOLDS = (10_000, 10, 1_000)
"""Thresholds of the three generations.

Young objects are still collected; a full collection waits for 10^8 allocations.
"""


@contextmanager
def deferred_full_gc() -> Generator[None]:
    """Raise the collector's thresholds inside the block.

    Why: modules of torch and sympy stay loaded until the process ends, so scanning them again frees nothing.
    """
    before = gc.get_threshold()
    gc.set_threshold(*(max(pair) for pair in zip(before, THRESHOLDS, strict=True)))
    try:
        yield
    finally:
        gc.set_threshold(*before)


def end_without_collection() -> None:
    """Let this process end without a search for garbage.

    Why: with torch and sympy it takes a second or two. What is registered to run at the end still runs, and what nothing refers
    to is still freed. A second call changes nothing.
    """
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
