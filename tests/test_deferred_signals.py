"""Termination signals are deferred until an object has an owner.

The object is the one under construction.
"""

from __future__ import annotations

import signal
import threading

import pytest

from ioaware._deferred_signals import deferred_signals


def test_ctrl_c_arrives_at_the_end_of_the_block() -> None:
    reached: list[str] = []

    def interrupted() -> None:
        with deferred_signals():
            signal.raise_signal(signal.SIGINT)
            reached.append("the end of the block")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached == ["the end of the block"]


def test_handlers_are_restored_and_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with deferred_signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_defer_nothing() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with deferred_signals():
                pass
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failures == []
