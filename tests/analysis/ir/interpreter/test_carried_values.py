"""Closed forms of values that a loop carries."""

# ruff: noqa: PIE808 - kernels are written as in user code
from __future__ import annotations

import numpy as np
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


def test_a_pointer_that_advances_under_conditions_has_an_address() -> None:
    """Against the addresses of the same steps in Python."""
    launched = Launched(advancing, [Tensor(100), Tensor(ITERATIONS), ITERATIONS, PERIOD, SKIP], [1], [{}])
    arguments = [_argument(name, value) for name, value in zip(launched.names(), launched.arguments, strict=True)]
    found, _ = touches(launched.text(), arguments, [1])
    read = next(touch for touch in found if touch.kind == "read")
    index = read.scopes[0].index.key
    expected, at, i = list[int](), 0, 0
    for k in range(ITERATIONS):
        if k > 0:
            at += 2 + (SKIP if i == 0 else 0)
        i = (i + 1) % PERIOD
        expected.append(4 * at)
    assert [int(numeric(read.target.offset, {index: np.asarray(k)})) for k in range(ITERATIONS)] == expected
