"""Report the progress of a long trace.

It says which programs are done, and estimates the time left.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

INTERVAL_S = 5.0


class Progress:
    """Calls `report` with a sentence every `interval_s` seconds.

    The calls come from a thread, while its block runs.
    """

    def __init__(self, report: Callable[[str], None], interval_s: float = INTERVAL_S) -> None:
        self._report = report
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._kernel, self._programs, self._done, self._started = "", 0, 0, time.monotonic()

    def begin(self, kernel: str, programs: int) -> None:
        """Note that a launch begins."""
        self._kernel, self._programs, self._done, self._started = kernel, programs, 0, time.monotonic()

    def advance(self) -> None:
        """Note that a program of the launch is done."""
        self._done += 1

    def sentence(self) -> str:
        """Return the state in words."""
        if not self._kernel:
            return "the host function runs"
        elapsed_s = time.monotonic() - self._started
        share = f"{self._kernel}: {self._done:,} of {self._programs:,} programs"
        if not 0 < self._done < self._programs:
            return f"{share} after {_duration(elapsed_s)}"
        return f"{share}, about {_duration(elapsed_s / self._done * (self._programs - self._done))} left in this launch"

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            self._report(self.sentence())

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
