"""Data-dependent kernels: derived, traced, interpreted and hand counts agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from tests.support.ir_zoo.compiled import Launched, Tensor
from tests.support.ir_zoo.concrete_run import concrete_run

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")

I32, I64, I8 = torch.int32, torch.int64, torch.int8
ROWS = 6
LENGTHS = [3, 0, 9, 16, 1, 21]
STARTS = [0, *np.cumsum(LENGTHS).tolist()]
IDS = [4, 0, 0, 5, 2, -1, 3, 2]
FLAGS = [1, 0, 1, 1, 0, 0]


def tensor_of(data: list[int], dtype: torch.dtype = I32) -> Tensor:
    """Return an integer tensor with these contents."""
    return Tensor(len(data), dtype, lambda _: torch.tensor(data))


@triton.jit
def counts(length, out, B: tl.constexpr):
    b = tl.program_id(0)
    at = tl.arange(0, B)
    tl.store(out + b * B + at, 1.0, mask=at < tl.load(length + b))


@triton.jit
def blocks(length, x, out, B: tl.constexpr):
    b = tl.program_id(0)
    total = tl.zeros([B], tl.float32)
    for start in range(0, tl.load(length + b), B):
        total += tl.load(x + start + tl.arange(0, B))
    tl.store(out + b * B + tl.arange(0, B), total)


@triton.jit
def ragged(start, x, out, B: tl.constexpr):
    b = tl.program_id(0)
    low = tl.load(start + b)
    n = tl.load(start + b + 1) - low
    at = tl.arange(0, B)
    tl.store(out + low + at, tl.load(x + low + at, mask=at < n), mask=at < n)


@triton.jit
def ragged_range(start, x, out, B: tl.constexpr):
    b = tl.program_id(0)
    total = 0.0
    for i in range(tl.load(start + b), tl.load(start + b + 1)):
        total += tl.load(x + i)
    tl.store(out + b, total)


@triton.jit
def skipped(flag, x, out, B: tl.constexpr):
    b = tl.program_id(0)
    if tl.load(flag + b) != 0:
        at = b * B + tl.arange(0, B)
        tl.store(out + at, tl.load(x + at))


@triton.jit
def early(flag, out, B: tl.constexpr):
    b = tl.program_id(0)
    if tl.load(flag + b) == 0:
        return
    tl.store(out + b * B + tl.arange(0, B), 1.0)


@triton.jit
def gathered(ids, x, out, B: tl.constexpr):
    b = tl.program_id(0)
    row = tl.load(ids + b)
    at = tl.arange(0, B)
    tl.store(out + b * B + at, tl.load(x + row * B + at, mask=row >= 0, other=0.0))


@triton.jit
def scattered(ids, out, B: tl.constexpr):
    at = tl.arange(0, B)
    row = tl.load(ids + at)
    tl.store(out + row, 1.0, mask=row >= 0)


@triton.jit
def starts_of_runs(ids, out, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(out + at, 1.0, mask=tl.load(ids + at) != tl.load(ids + at + 1))


@triton.jit
def until_negative(ids, out, B: tl.constexpr):
    at = 0
    while tl.load(ids + at) >= 0:
        tl.store(out + at * B + tl.arange(0, B), 1.0)
        at += 1


@triton.jit
def chased(ids, out, n, B: tl.constexpr):
    at = 0
    for i in range(n):
        at = tl.load(ids + at)
        tl.store(out + i * B + tl.arange(0, B), 1.0, mask=tl.arange(0, B) < at)


@triton.jit
def queue(counter, ids, out, B: tl.constexpr):
    job = tl.atomic_add(counter, 1)
    tl.store(out + job * B + tl.arange(0, B), 1.0, mask=tl.arange(0, B) < tl.load(ids + job))


@triton.jit
def reread(counter, out, B: tl.constexpr):
    before = tl.load(counter)
    tl.store(counter, before + 3)
    tl.store(out + tl.arange(0, B), 1.0, mask=tl.arange(0, B) < tl.load(counter) - before)


@triton.jit
def largest(length, out, R: tl.constexpr, B: tl.constexpr):
    most = tl.max(tl.load(length + tl.arange(0, R), mask=tl.arange(0, R) < 6, other=0), 0)
    for i in range(most):
        tl.store(out + i * B + tl.arange(0, B), 1.0)


@triton.jit
def summed(length, out, R: tl.constexpr, B: tl.constexpr):
    lengths = tl.load(length + tl.arange(0, R), mask=tl.arange(0, R) < 6, other=0)
    tl.store(out + tl.arange(0, B), 1.0, mask=tl.arange(0, B) < tl.sum(lengths, 0))


@triton.jit
def before_this(length, out, R: tl.constexpr, B: tl.constexpr):
    at = tl.arange(0, R)
    ends = tl.cumsum(tl.load(length + at, mask=at < 6, other=0), 0)
    tl.store(out + at, 1.0, mask=ends < 12)


@triton.jit
def nested(start, ids, x, out, B: tl.constexpr):
    b = tl.program_id(0)
    total = tl.zeros([B], tl.float32)
    for i in range(tl.load(start + b), tl.load(start + b + 1)):
        total += tl.load(x + tl.load(ids + i % 5) * B + tl.arange(0, B))
    tl.store(out + b * B + tl.arange(0, B), total)


@triton.jit
def paged(table, length, cache, out, B: tl.constexpr):
    b = tl.program_id(0)
    n = tl.load(length + b)
    total = tl.zeros([B], tl.float32)
    for page in range(tl.cdiv(n, B)):
        at = tl.arange(0, B)
        total += tl.load(cache + tl.load(table + b * 4 + page) * B + at, mask=page * B + at < n, other=0.0)
    tl.store(out + b * B + tl.arange(0, B), total)


@triton.jit
def _load_at(p, i):
    return tl.load(p + i)


@triton.jit
def through_a_helper(start, out, B: tl.constexpr):
    b = tl.program_id(0)
    n = _load_at(start, b + 1) - _load_at(start, b)
    tl.store(out + b * B + tl.arange(0, B), 1.0, mask=tl.arange(0, B) < n)


@triton.jit(noinline=True)
def _call_at(p, i):
    return tl.load(p + i)


@triton.jit
def through_a_call(start, out, B: tl.constexpr):
    b = tl.program_id(0)
    n = _call_at(start, b + 1) - _call_at(start, b)
    tl.store(out + b * B + tl.arange(0, B), 1.0, mask=tl.arange(0, B) < n)


@dataclass(frozen=True)
class Case:
    """A launch with its reads, writes and atomics, counted by hand.

    The counts are in elements of 4 bytes.
    """

    launched: Launched
    reads: int
    writes: int
    atomics: int = 0


def case(kernel: Any, arguments: list[Any], grid: int, reads: int, writes: int, atomics: int = 0, **constants: int) -> Case:
    return Case(Launched(kernel, arguments, [grid], [], constants), reads, writes, atomics)


def capped_sum(most: int, data: list[int] = LENGTHS) -> int:
    return sum(min(most, one) for one in data)


def pages(width: int) -> int:
    return sum(-(-n // width) for n in LENGTHS)


WORK = Tensor(1024)
TABLE = tensor_of([(3 * at) % 11 for at in range(4 * ROWS)])
NESTED = sum(LENGTHS)
CHASED = [4, 0, 0, 5, 2, 1, 3, 2]


def chain(steps: int, width: int) -> int:
    at, total = 0, 0
    for _ in range(steps):
        at = CHASED[at]
        total += min(width, at)
    return total


def runs(data: list[int], width: int) -> int:
    return sum(a != b for a, b in pairwise(data[: width + 1]))


CASES: dict[str, Case] = {}
for B in (8, 16):
    CASES |= {
        f"counts {B}": case(counts, [tensor_of(LENGTHS), WORK], ROWS, ROWS, capped_sum(B), B=B),
        f"blocks {B}": case(blocks, [tensor_of(LENGTHS), WORK, WORK], ROWS, ROWS + B * pages(B), B * ROWS, B=B),
        f"ragged {B}": case(ragged, [tensor_of(STARTS), WORK, WORK], ROWS, 2 * ROWS + capped_sum(B), capped_sum(B), B=B),
        f"ragged_range {B}": case(ragged_range, [tensor_of(STARTS), WORK, WORK], ROWS, 2 * ROWS + sum(LENGTHS), ROWS, B=B),
        f"skipped {B}": case(skipped, [tensor_of(FLAGS), WORK, WORK], ROWS, ROWS + 3 * B, 3 * B, B=B),
        f"early {B}": case(early, [tensor_of(FLAGS), WORK], ROWS, ROWS, 3 * B, B=B),
        f"gathered {B}": case(gathered, [tensor_of(IDS), WORK, WORK], 8, 8 + 7 * B, 8 * B, B=B),
        f"scattered {B}": case(scattered, [tensor_of([*IDS, *IDS]), WORK], 1, B, 7 * B // 8, B=B),
        f"starts_of_runs {B}": case(
            starts_of_runs, [tensor_of([*IDS, *IDS, 7]), WORK], 1, 2 * B, runs([*IDS, *IDS, 7], B), B=B
        ),
        f"until_negative {B}": case(until_negative, [tensor_of(IDS), WORK], 1, 6, 5 * B, B=B),
        f"chased {B}": case(chased, [tensor_of(CHASED), WORK, 7], 1, 7, chain(7, B), B=B),
        f"queue {B}": case(queue, [tensor_of([0]), tensor_of(LENGTHS), WORK], 4, 4, capped_sum(B, LENGTHS[:4]), 4, B=B),
        f"reread {B}": case(reread, [tensor_of([5]), WORK], 1, 2, 1 + 3, B=B),
        f"largest {B}": case(largest, [tensor_of(LENGTHS), WORK], 1, 6, 21 * B, B=B, R=8),
        f"summed {B}": case(summed, [tensor_of(LENGTHS), WORK], 1, 6, min(B, sum(LENGTHS)), B=B, R=8),
        f"before_this {B}": case(before_this, [tensor_of(LENGTHS), WORK], 1, 6, 2, B=B, R=8),
        f"nested {B}": case(
            nested, [tensor_of(STARTS), tensor_of(CHASED), WORK, WORK], ROWS, 2 * ROWS + NESTED * (1 + B), ROWS * B, B=B
        ),
        f"paged {B}": case(paged, [TABLE, tensor_of(LENGTHS), WORK, WORK], ROWS, ROWS + pages(B) + sum(LENGTHS), ROWS * B, B=B),
        f"through_a_helper {B}": case(through_a_helper, [tensor_of(STARTS), WORK], ROWS, 2 * ROWS, capped_sum(B), B=B),
        f"through_a_call {B}": case(through_a_call, [tensor_of(STARTS), WORK], ROWS, 2 * ROWS, capped_sum(B), B=B),
    }


@pytest.mark.parametrize("name", CASES)
def test_derive_trace_interpretation_and_hand_agree(name: str) -> None:
    one = CASES[name]
    by_hand = {"read_bytes": 4 * one.reads, "write_bytes": 4 * one.writes, "atomic_bytes": 4 * one.atomics}
    tally = concrete_run(one.launched, {})
    assert {field: getattr(tally, field) for field in by_hand} == by_hand
    assert not tally.beyond
    traced = one.launched.trace({}).requested
    assert {field: getattr(traced, field) for field in by_hand} == by_hand
    derived = one.launched.derive()
    for field, true in by_hand.items():
        count = getattr(derived, field)
        if count.symbols:  # an unknown has another value in each program, so no number is exact
            assert not derived.exact
        elif derived.exact:
            assert count.evaluate({}) == true, field
        else:
            assert count.evaluate({}) >= true, field


EQUAL_LOADS: dict[str, tuple[Callable[..., Any], list[Any], dict[str, int], int]] = {
    "counts": (counts, [tensor_of([5] * ROWS), WORK], {"length": 5}, 4 * 5 * ROWS),
    "ragged": (ragged, [tensor_of(list(range(0, 4 * ROWS + 1, 4))), WORK, WORK], {}, 4 * 4 * ROWS),
    "early": (early, [tensor_of([1] * ROWS), WORK], {"flag": 1}, 4 * 16 * ROWS),
    "largest": (largest, [tensor_of([7] * ROWS), WORK], {}, 4 * 16 * 7),
}


@pytest.mark.parametrize("name", ["counts", "early"])
def test_formulas_with_unknowns_are_right_where_all_programs_load_equal_values(name: str) -> None:
    kernel, arguments, values, written = EQUAL_LOADS[name]
    derived = Launched(kernel, arguments, [ROWS], [], {"B": 16}).derive()
    (unknown,) = derived.write_bytes.symbols
    (value,) = values.values()
    assert derived.write_bytes.evaluate({unknown: value}) == written


def test_a_difference_of_two_unknowns_is_right_at_their_values() -> None:
    derived = Launched(ragged, EQUAL_LOADS["ragged"][1], [ROWS], [], {"B": 16}).derive()
    low, high = sorted(derived.write_bytes.symbols)  # by their lines
    assert derived.write_bytes.evaluate({high: 8, low: 4}) == EQUAL_LOADS["ragged"][3]
