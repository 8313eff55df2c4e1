"""Postpone full garbage collections during imports and derivations.

Libraries are imported and formulas derived meanwhile.
"""

from __future__ import annotations

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
