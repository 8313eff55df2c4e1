"""Defer termination while something is created that must be registered.

The registration is for its removal.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager

_TERMINATION = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def deferred_signals() -> Generator[None]:
    """Deliver SIGINT, SIGTERM and SIGHUP at the end of the block.

    Threads other than the main one receive none anyway.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    # A handler from outside Python (None) cannot be put back, and an ignored signal stays ignored, in child processes too.
    handlers = {number: signal.getsignal(number) for number in _TERMINATION}
    deferred = {number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
    for number in deferred:
        signal.signal(number, lambda number, _frame: received.append(number))
    try:
        yield
    finally:
        for number, handler in deferred.items():
            signal.signal(number, handler)
        for number in received[:1]:
            signal.raise_signal(number)
