"""The time limit of a transfer, on works and a group that are scripted."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ioaware.kernels.attention.distributed.deadline import Deadline


class Work:
    def __init__(self, done: bool) -> None:
        self.done = done

    def is_completed(self) -> bool:
        return self.done


def deadline(limit_s: float, *works: Any) -> tuple[Deadline, list[str]]:
    aborts: list[str] = []
    made = Deadline(limit_s, lambda: aborts.append("abort"))
    if works:
        made.works = works
    return made, aborts


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


def test_a_host_that_hangs_while_it_starts_a_transfer_is_freed() -> None:
    made, aborts = deadline(0.05)
    while not aborts:  # NCCL's call returns when the group is aborted
        time.sleep(0.01)
    made.cancel()
    assert made.expired
