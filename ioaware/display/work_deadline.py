"""End long work between two of its steps once its time is over.

Why not by a signal: it would interrupt the removal of patches, too, and leave torch as the fake GPU has it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic  # the name stays, where host code gets another clock

_end: ContextVar[float | None] = ContextVar("end", default=None)


class OutOfTime(BaseException):
    """The time is over; not an `Exception`, which host code and its callers catch."""


@contextmanager
def deadline(end: float | None) -> Generator[None]:
    """Raise `OutOfTime` at steps begun after `end`, in seconds of `time.monotonic`."""
    token = _end.set(end)
    try:
        yield
    finally:
        _end.reset(token)


def step() -> None:
    """Begin a step. Raises `OutOfTime` where the time of the block is over."""
    end = _end.get()
    if end is not None and monotonic() > end:
        raise OutOfTime
