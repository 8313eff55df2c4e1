"""Limit the time of work that only improves the display.

The leading term of a long formula is such work.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")
AGAIN_SECONDS = 0.2
"""CPU time after which the timer fires again.

Python drops an exception that is raised in a finaliser or in the callback of a weak reference.
"""


class _OutOfTime(BaseException):
    """Raised by the timer; not an `Exception`, which the work itself may catch."""


def within(seconds: float, make: Callable[[], Made]) -> Made | None:
    """Return what `make` returns, or None once it has used that much CPU time.

    There is no limit outside the main thread and without an interval timer, because signals are handled in the main thread
    only.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return make()

    def stop(*_: Any) -> None:
        raise _OutOfTime

    before, unraisable = signal.signal(signal.SIGVTALRM, stop), sys.unraisablehook
    sys.unraisablehook = lambda lost: None if lost.exc_type is _OutOfTime else unraisable(lost)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, AGAIN_SECONDS)
    try:
        try:
            return make()
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _OutOfTime:
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        sys.unraisablehook = unraisable
