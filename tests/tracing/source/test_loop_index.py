"""Loop indices of interpreted kernels count as the compiler's integers do.

They wrap around, divide toward zero, and become floats where they meet one.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl

import ioaware
from ioaware.errors import UsageError
from ioaware.tracing.source.loop_index import LoopIndex

WORD = 4


@triton.jit
def signs(out, n):
    for at in range(-5, n):
        tl.store(out, 1.0, mask=at // 2 < -2)
        tl.store(out, 1.0, mask=at % 3 < 0)
        tl.store(out, 1.0, mask=7 // (at * 2 + 1) < 0)
        tl.store(out, 1.0, mask=-7 % (at * 2 + 1) < 0)


@triton.jit
def wraps(out, n, SIZE: tl.constexpr):
    for at in range(n):
        tl.store(out, 1.0, mask=at * SIZE * 4 < 5)
        tl.store(out, 1.0, mask=at + 2147483646 < 0)


@triton.jit
def floats(out, n, SIZE: tl.constexpr):
    for at in range(n):
        tl.store(out, 1.0, mask=(at * (SIZE / 8)).to(tl.int32) < 5)
        tl.store(out, 1.0, mask=(at / 2).to(tl.int32) == 1)


@triton.jit
def steps(out, low, high, by):
    for at in range(low, high, by):
        tl.store(out + at, 1.0)


@triton.jit
def steps_down(out, low, high, BY: tl.constexpr):
    for at in range(high, low, -BY):
        tl.store(out + at, 1.0)


def run(kernel: object, *numbers: int, **constants: int) -> Callable[[], object]:
    def target(device: str = "cuda") -> None:
        kernel[(1,)](torch.zeros(64, device=device), *numbers, **constants)  # type: ignore[index]

    return target


@pytest.mark.parametrize(
    ("target", "stores"),
    [
        # at // 2: none; at % 3: -5, -4, -2, -1; 7 // (2 at + 1): -4 to -1; -7 % (2 at + 1): -5, -3, -2, 1, 2, 4, 5
        (run(signs, 6), 0 + 4 + 4 + 7),
        (run(wraps, 6, SIZE=2**29), 6 + 4),  # all products are 0 or -2^31; 2 and later wrap
        (run(floats, 6, SIZE=20), 2 + 2),  # 0, 2.5; 1, 1.5
        (run(steps, 2, 17, 5), 3),
        (run(steps, 17, 2, -5), 0),  # compiled code runs while 17 < 2
        (run(steps_down, 2, 17, BY=5), 3),  # a constant step may be negative
    ],
)
def test_indices_count_as_in_the_compiled_kernel(target: Callable[[], object], stores: int) -> None:
    traced = ioaware.trace(target).requested
    assert traced is not None
    assert traced.write_bytes == stores * WORD


def test_a_loop_without_end_is_refused() -> None:
    with pytest.raises(UsageError, match="does not end"):
        ioaware.trace(run(steps, 2, 17, -5))


def test_an_index_of_64_bits_does_not_wrap() -> None:
    assert LoopIndex(2**20, 64) * 2**20 == 2**40
    assert int(LoopIndex(2**20) * 2**20) == 0
