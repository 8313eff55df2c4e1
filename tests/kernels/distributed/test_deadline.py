"""The time limit of a transfer, on works and a group that are scripted."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from ioaware.kernels.attention.distributed.deadline import Deadline, start_within


class Work:
    def __init__(self, done: bool) -> None:
        self.done = done

    def is_completed(self) -> bool:
        return self.done


def deadline(limit_s: float, *works: Any) -> tuple[Deadline, list[str]]:
    aborts: list[str] = []
    return Deadline(limit_s, works, lambda: aborts.append("abort")), aborts


def test_a_completed_transfer_is_not_aborted() -> None:
    made, aborts = deadline(0.05, Work(done=True))
    time.sleep(0.1)  # the host computed for longer than the limit
    made.wait()
    assert not made.expired
    assert not aborts


def test_a_transfer_that_does_not_complete_is_aborted_once() -> None:
    made, aborts = deadline(0.05, Work(done=True), Work(done=False))
    with pytest.raises(RuntimeError, match=r"not complete after 0\.05 s"):
        made.wait()
    assert aborts == ["abort"]


def test_a_group_is_aborted_while_the_host_does_something_else() -> None:
    made, aborts = deadline(0.05, Work(done=False))
    time.sleep(0.5)
    assert aborts == ["abort"]
    assert made.expired


def test_a_start_that_hangs_is_left_behind() -> None:
    released = threading.Event()

    def connect() -> list[Any]:
        released.wait()
        return []

    began = time.monotonic()
    with pytest.raises(RuntimeError, match=r"not complete after 0\.05 s"):
        start_within(0.05, connect, None)
    assert time.monotonic() - began < 5
    released.set()


def test_a_start_returns_its_works_or_raises_its_error() -> None:
    work: Any = Work(done=True)
    assert start_within(60, lambda: [work], None) == (work,)
    with pytest.raises(ValueError, match="peer"):
        start_within(60, lambda: [Work(done=bool(int("peer")))], None)  # pyright: ignore[reportArgumentType]
