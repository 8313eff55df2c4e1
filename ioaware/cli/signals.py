"""Handle signals of the command line.

They are Ctrl-C while libraries are imported, and termination with clean-up.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

AGAIN_S = 15.0
"""Interval at which termination is raised again; longer than any clean-up.

Why: a library that is imported may swallow any exception, as C extensions do.
"""
_received: list[int] = []


class Terminated(BaseException):
    """SIGTERM or SIGHUP, raised where the process was.

    No `SystemExit`: that is caught where a target's function exits.
    """


def install() -> None:
    """Handle Ctrl-C, SIGTERM and SIGHUP.

    They are left ignored where the parent process has them ignored (as `nohup` does).
    """
    handlers = {signal.SIGINT: _interrupt, signal.SIGTERM: _terminate, signal.SIGHUP: _terminate}
    for number, handler in handlers.items():
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, handler)


def interrupted() -> bool:
    """Return whether Ctrl-C was pressed.

    A library that is imported may turn it into another exception.
    """
    return signal.SIGINT in _received


def termination_code() -> int | None:
    """Return the exit code of a process that was to be terminated, else None.

    From now on nothing is raised again: the command has ended, and the process cleans up.
    """
    signal.setitimer(signal.ITIMER_REAL, 0)
    return next((128 + number for number in _received if number != signal.SIGINT), None)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    _received.append(number)
    raise KeyboardInterrupt


def _terminate(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    """End the process in order.

    Temporary directories and child processes then go too.
    """
    _received.append(number)
    signal.signal(signal.SIGALRM, _raise_again)
    signal.setitimer(signal.ITIMER_REAL, AGAIN_S, AGAIN_S)
    raise Terminated


def _raise_again(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    raise Terminated
