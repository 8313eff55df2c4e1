"""Find out whether host code moves more when it is called a second time."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from triton.backends.compiler import GPUTarget

from ioaware.capture.launch_agreement import NOWHERE, agree
from ioaware.compilation.launches import CapturedLaunch, Event, without_storage_numbers

MORE_LATER = "no second call launches more than the first"
"""Begin of the note on host code of which that is not so."""
_compared: ContextVar[bool] = ContextVar("compared", default=False)


@contextmanager
def second_calls_compared() -> Generator[None]:
    """Inside the block, a capture calls the work once more and compares.

    Formulas are of the first call. Why not always: it takes a run of host code, and only a gate asks what later calls do.
    """
    token = _compared.set(True)
    try:
        yield
    finally:
        _compared.reset(token)


def compares_second_calls() -> bool:
    """Return whether this is inside such a block."""
    return _compared.get()


def only_later(first: Sequence[Event], second: Sequence[Event], gpu: GPUTarget) -> str:
    """Return the name of an event of a second call that the first one lacks.

    Empty where there is none. A first call may make more, such as a workspace.
    """
    left = [_comparable(event) for event in first]
    for event in second:
        now = _comparable(event)
        match = next((number for number, one in enumerate(left) if agree([now], [one], NOWHERE, gpu)), None)
        if match is None:
            return event.name
        del left[match]
    return ""


def _comparable(event: Event) -> Event:
    return without_storage_numbers(event) if isinstance(event, CapturedLaunch) else event
