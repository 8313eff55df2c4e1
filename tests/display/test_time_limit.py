"""Optional display work ends at its time limit.

It does so even inside handlers of all exceptions.
"""

from __future__ import annotations

import signal
import threading
import time

import pytest

from ioaware.display.time_limit import within


def endless() -> int:
    while True:
        try:
            sum(range(1000))
        except Exception:  # noqa: S112 - as symbolic algebra does
            continue


def test_the_result_or_none() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    start = time.process_time()
    assert within(0.2, endless) is None
    assert time.process_time() - start < 5
    assert within(5, lambda: 7) == 7
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGVTALRM) is before


def test_the_limit_holds_where_python_drops_the_exception(capsys: pytest.CaptureFixture[str]) -> None:
    class Slow:
        def __del__(self) -> None:
            endless()

    def make() -> int:
        Slow()
        return endless()

    start = time.process_time()
    assert within(0.2, make) is None
    assert time.process_time() - start < 5
    assert capsys.readouterr().err == ""


def test_other_threads_have_no_limit() -> None:
    found: list[int | None] = []
    thread = threading.Thread(target=lambda: found.append(within(0.01, lambda: time.sleep(0.05) or 3)))
    thread.start()
    thread.join()
    assert found == [3]
