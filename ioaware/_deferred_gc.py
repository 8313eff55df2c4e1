"""Python's garbage collector while ioaware imports and derives: full collections wait until that is done."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

PATIENT = (10_000, 10, 1_000)
"""Thresholds: what dies young is still collected; a full collection has to wait for a hundred million new objects."""


@contextmanager
def patient_collector() -> Generator[None]:
    """Inside the block the many objects that live as long as the process (modules of torch and sympy) are not gone through
    again and again: each time takes 0.1 s and frees nothing."""
    before = gc.get_threshold()
    gc.set_threshold(*(max(pair) for pair in zip(before, PATIENT, strict=True)))
    try:
        yield
    finally:
        gc.set_threshold(*before)
