"""Transfers are under way while a rank computes.

The order of sends, calls of attention and waits is tested without other ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from ioaware.kernels.attention.distributed import ring, square
from ioaware.kernels.attention.distributed.layout import Layout


class RecordedTransfers:
    """Transfers of one of four ranks that move nothing and note what is asked of them."""

    rank, ranks = 1, 4

    def __init__(self) -> None:
        self.events: list[str] = []

    def exchange(self, sends: Sequence[Any], receives: Sequence[Any]) -> RecordedTransfers:
        for _, tensor in receives:
            tensor.zero_()
        self.events.append("start")
        return self

    def wait(self) -> None:
        self.events.append("wait")

    def attend(self, *_: object, transfers: bool) -> None:
        del transfers
        self.events.append("attend")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> RecordedTransfers:
    transfers = RecordedTransfers()
    for module in (ring, square):
        for name in ("attend", "attend_backward"):
            monkeypatch.setattr(module, name, transfers.attend)
    return transfers


def layout(transfers: RecordedTransfers) -> Layout:
    return Layout(transfers, 2, 2, 16, 16, False, 1.0, (4, 1))  # pyright: ignore[reportArgumentType]


def test_a_ring_sends_each_block_before_it_attends_to_it(recorded: RecordedTransfers) -> None:
    q, k, v = (torch.zeros(1, 2, 4, 8) for _ in range(3))
    o, saved = ring.ring_forward(layout(recorded), q, k, v)
    assert recorded.events == [*("start", "attend", "wait") * 3, "attend"]
    recorded.events.clear()
    ring.ring_backward(layout(recorded), saved, o)
    # the sums of one step travel during the next, and are waited for after its attention
    first = ("start", "attend", "wait")
    second = ("start", "attend", "start", "wait")
    third = ("start", "attend", "wait", "start", "wait")
    assert recorded.events == [*first, *second, *third, "attend", "wait", "start", "wait"]


def test_an_all_gather_attends_while_later_blocks_arrive(recorded: RecordedTransfers) -> None:
    q, k, v = (torch.zeros(1, 2, 4, 8) for _ in range(3))
    square.square_forward(layout(recorded), q, k, v)
    gathered = recorded.events[recorded.events.index("attend") :]
    assert recorded.events.count("start") == 4  # an empty row, and three blocks of the column
    assert gathered == ["attend", *("wait", "attend") * 3]
