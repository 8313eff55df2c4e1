"""Closed forms of values that a loop carries."""

# ruff: noqa: PIE808 - kernels are written as in user code
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from ioaware.analysis.ir.kernel_analysis import touches
from ioaware.analysis.ir.sectors.lanes import numeric
from tests.support.ir_zoo.compiled import Launched, Tensor, _argument

ITERATIONS, PERIOD, SKIP = 10, 3, 5


@triton.jit
def advancing(x, out, n, period, skip):
    """Advance from the second iteration on, and further where a counter restarts."""
    at = x
    i = 0
    for k in range(0, n):
        if k > 0:
            at += 2
            if i == 0:
                at += skip
        i += 1
        if i == period:
            i = 0
        tl.store(out + k, tl.load(at))


@triton.jit
def peeled(x, out, first, end, turns, skip):
    """Run the first iteration before the loop: the counter may restart there."""
    at = x
    i = first + 1
    if i == end:
        i = first
    tl.store(out, tl.load(at))
    for k in range(1, (end - first) * turns):
        at += 2
        if i == first:
            at += skip
        i += 1
        if i == end:
            i = first
        tl.store(out + k, tl.load(at + i))


def read_addresses(kernel: Any, arguments: list[object], iterations: range) -> list[int]:
    """Return the addresses that the loop's last read has by its formula."""
    launched = Launched(kernel, [Tensor(100), Tensor(100), *arguments], [1], [{}])
    given = [_argument(name, value) for name, value in zip(launched.names(), launched.arguments, strict=True)]
    found, _ = touches(launched.text(), given, [1])
    read = [touch for touch in found if touch.kind == "read" and touch.scopes][-1]
    index = read.scopes[0].index.key
    return [int(numeric(read.target.offset, {index: np.asarray(k)})) for k in iterations]


def test_a_pointer_that_advances_under_conditions_has_an_address() -> None:
    """Against the addresses of the same steps in Python."""
    expected, at, i = list[int](), 0, 0
    for k in range(ITERATIONS):
        if k > 0:
            at += 2 + (SKIP if i == 0 else 0)
        i = (i + 1) % PERIOD
        expected.append(4 * at)
    assert read_addresses(advancing, [ITERATIONS, PERIOD, SKIP], range(ITERATIONS)) == expected


@pytest.mark.parametrize(("first", "end", "turns"), [(2, 5, 3), (2, 3, 4), (0, 6, 1)])
def test_a_counter_restarts_that_ran_before_its_loop(first: int, end: int, turns: int) -> None:
    """Against the addresses of the same steps in Python."""
    expected, at, i, iterations = list[int](), 0, first + 1, range(1, (end - first) * turns)
    i = first if i == end else i
    for _ in iterations:
        at += 2 + (SKIP if i == first else 0)
        i = first if i + 1 == end else i + 1
        expected.append(4 * (at + i))
    assert read_addresses(peeled, [first, end, turns, SKIP], iterations) == expected
