"""Handle signals of the command line.

They are Ctrl-C while libraries are imported, and termination with clean-up.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

_received: list[int] = []


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


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    _received.append(number)
    raise KeyboardInterrupt


def _terminate(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    """End the process in order.

    Temporary directories and child processes then go too.
    """
    raise SystemExit(128 + number)
