"""Kernels on sparse matrices and lists, with their data and a count by loops.

Each target builds its index tensors. `COUNTS` has a function for each that returns the elements that are read, written and
updated atomically, of 4 bytes each, from the same data.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise

import torch
import triton
import triton.language as tl

Elements = tuple[int, int, int]
Count = Callable[[], Elements]
COUNTS: dict[str, Count] = {}
STARTS = [0, 3, 3, 10, 11, 16]
COLUMNS = [1, 4, 0, 2, 2, 5, 7, 1, 0, 3, 6, 6, 5, 4, 1, 0]
BINS = [3, 1, -1, 4, 1, 5, 9, 2, 6, 5, 3, 5, -1, 9, 7, 9]
EDGES = [0, 2, 3, 5, 9]
NEXT = [3, 5, 0, 6, -1, 2, 1]
DIM = 16


def counted(count: Count) -> Count:
    """Store a count under its kernel's name."""
    COUNTS[count.__name__.removeprefix("count_")] = count
    return count


def ints(data: list[int]) -> torch.Tensor:
    return torch.tensor(data, dtype=torch.int32, device="cuda")


def floats(count: int = 1024) -> torch.Tensor:
    return torch.ones(count, device="cuda")


@triton.jit
def csr_kernel(starts, columns, values, x, out):
    row = tl.program_id(0)
    total = 0.0
    for at in range(tl.load(starts + row), tl.load(starts + row + 1)):
        total += tl.load(values + at) * tl.load(x + tl.load(columns + at))
    tl.store(out + row, total)


def csr() -> None:
    csr_kernel[(len(STARTS) - 1,)](ints(STARTS), ints(COLUMNS), floats(), floats(), floats())


@counted
def count_csr() -> Elements:
    rows = len(STARTS) - 1
    return 2 * rows + sum(3 for row in range(rows) for _ in range(STARTS[row], STARTS[row + 1])), rows, 0


@triton.jit
def coo_kernel(rows, values, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    row = tl.load(rows + at, mask=at < n, other=-1)
    value = tl.load(values + at, mask=row >= 0, other=0.0)
    tl.atomic_add(out + row, value, mask=row >= 0)


def coo() -> None:
    coo_kernel[(4,)](ints(BINS), floats(), floats(), 14, B=4)


@counted
def count_coo() -> Elements:
    valid = sum(row >= 0 for row in BINS[:14])
    return 14 + valid, 0, valid


@triton.jit
def ell_kernel(columns, x, out, WIDTH: tl.constexpr, D: tl.constexpr):
    row, d = tl.program_id(0), tl.arange(0, D)
    total = tl.zeros([D], tl.float32)
    for slot in tl.static_range(WIDTH):
        column = tl.load(columns + row * WIDTH + slot)
        if column >= 0:
            total += tl.load(x + column * D + d)
    tl.store(out + row * D + d, total)


def ell() -> None:
    ell_kernel[(4,)](ints(BINS), floats(), floats(), WIDTH=4, D=DIM)


@counted
def count_ell() -> Elements:
    return 16 + DIM * sum(column >= 0 for column in BINS), 4 * DIM, 0


@triton.jit
def block_rows_kernel(starts, columns, blocks, x, out, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    at, end = tl.load(starts + row), tl.load(starts + row + 1)
    while at < end:
        block = tl.load(blocks + at * B * B + i[:, None] * B + i[None, :])
        total += tl.sum(block * tl.load(x + tl.load(columns + at) * B + i)[None, :], 1)
        at += 1
    tl.store(out + row * B + i, total)


def block_rows() -> None:
    block_rows_kernel[(5,)](ints(STARTS), ints(COLUMNS), floats(), floats(), floats(), B=8)


@counted
def count_block_rows() -> Elements:
    blocks = sum(end - start for start, end in pairwise(STARTS))
    return 10 + blocks * (1 + 8 + 64), 5 * 8, 0


@triton.jit
def histogram_kernel(data, out, LOW: tl.constexpr, HIGH: tl.constexpr, B: tl.constexpr):
    value = tl.load(data + tl.program_id(0) * B + tl.arange(0, B))
    tl.atomic_add(out + value - LOW, 1.0, mask=(value >= LOW) & (value < HIGH))


def histogram() -> None:
    histogram_kernel[(2,)](ints(BINS), floats(), LOW=2, HIGH=7, B=8)


@counted
def count_histogram() -> Elements:
    return 16, 0, sum(2 <= value < 7 for value in BINS)


@triton.jit
def searched_kernel(ends, x, out, COUNT: tl.constexpr, STEPS: tl.constexpr, D: tl.constexpr):
    """Find the group of a row by an unrolled binary search, and read that group's row."""
    row, d = tl.program_id(0), tl.arange(0, D)
    low, high = 0, COUNT
    for _ in tl.static_range(STEPS):
        middle = (low + high) // 2
        end = tl.load(ends + middle, mask=middle < COUNT, other=1 << 30)
        left = row < end
        high = tl.where(left, middle, high)
        low = tl.where(left, low, middle + 1)
    tl.store(out + row * D + d, tl.load(x + low * D + d, mask=d < low, other=0.0))


def searched() -> None:
    searched_kernel[(9,)](ints(EDGES), floats(), floats(), COUNT=5, STEPS=6, D=DIM)


@counted
def count_searched() -> Elements:
    reads = 0
    for row in range(9):
        low, high = 0, 5
        for _ in range(6):
            middle = (low + high) // 2
            left = middle >= 5 or row < EDGES[middle]
            reads += middle < 5
            low, high = (low, middle) if left else (middle + 1, high)
        assert low == bisect_right(EDGES, row)
        reads += min(DIM, low)
    return reads, 9 * DIM, 0


@triton.jit
def linear_search_kernel(edges, data, out, B: tl.constexpr):
    i = tl.program_id(0)
    value, at = tl.load(data + i), 0
    while tl.load(edges + at) < value:
        at += 1
    tl.store(out + i * B + tl.arange(0, B), 1.0, mask=tl.arange(0, B) < at)


def linear_search() -> None:
    linear_search_kernel[(16,)](ints(EDGES), ints(BINS), floats(), B=DIM)


@counted
def count_linear_search() -> Elements:
    steps = [next(at for at, edge in enumerate(EDGES) if edge >= value) for value in BINS]
    return 16 + sum(step + 1 for step in steps), sum(steps), 0


@triton.jit
def linked_kernel(following, x, out, B: tl.constexpr):
    at, total = tl.program_id(0), tl.zeros([B], tl.float32)
    while at >= 0:
        total += tl.load(x + at * B + tl.arange(0, B))
        at = tl.load(following + at)
    tl.store(out + tl.program_id(0) * B + tl.arange(0, B), total)


def linked() -> None:
    linked_kernel[(3,)](ints([1, 4, -1, 2, 5, -1]), floats(), floats(), B=DIM)


@counted
def count_linked() -> Elements:
    steps = 0
    for start in range(3):
        at = start
        while at >= 0:
            at, steps = [1, 4, -1, 2, 5, -1][at], steps + 1
    return steps * (DIM + 1), 3 * DIM, 0


@triton.jit
def frontier_kernel(starts, columns, level, out, depth, B: tl.constexpr):
    """Write the neighbours of the nodes of one level, as a breadth-first search does."""
    node = tl.program_id(0)
    if tl.load(level + node) == depth:
        start = tl.load(starts + node)
        at = tl.arange(0, B)
        valid = at < tl.load(starts + node + 1) - start
        tl.store(out + tl.load(columns + start + at, mask=valid, other=0), 1.0, mask=valid)


def frontier() -> None:
    frontier_kernel[(5,)](ints(STARTS), ints(COLUMNS), ints([0, 1, 1, 2, 1]), floats(), 1, B=8)


@counted
def count_frontier() -> Elements:
    nodes = [1, 2, 4]
    neighbours = sum(STARTS[node + 1] - STARTS[node] for node in nodes)
    return 5 + 2 * len(nodes) + neighbours, neighbours, 0


@triton.jit
def compacted_kernel(data, out, B: tl.constexpr):
    at = tl.arange(0, B)
    keep = (tl.load(data + at) % 2 == 1).to(tl.int32)
    place = tl.cumsum(keep, 0) - 1
    tl.store(out + place, 1.0, mask=(keep == 1) & (place < 5))


def compacted() -> None:
    compacted_kernel[(1,)](ints([abs(value) for value in BINS]), floats(), B=DIM)


@counted
def count_compacted() -> Elements:
    return DIM, min(5, sum(abs(value) % 2 for value in BINS)), 0


@triton.jit
def permuted_kernel(order, x, out, D: tl.constexpr):
    row, d = tl.program_id(0), tl.arange(0, D)
    tl.store(out + tl.load(order + row) * D + d, tl.load(x + row * D + d))


def permuted() -> None:
    order = torch.argsort(ints(NEXT))
    permuted_kernel[(7,)](order.to(torch.int32), floats(), floats(), D=DIM)


@counted
def count_permuted() -> Elements:
    return 7 * (1 + DIM), 7 * DIM, 0


@triton.jit
def bag_kernel(offsets, ids, table, out, count, D: tl.constexpr):
    bag, d = tl.program_id(0), tl.arange(0, D)
    end = tl.where(bag + 1 < tl.num_programs(0), tl.load(offsets + bag + 1, mask=bag + 1 < tl.num_programs(0), other=0), count)
    total = tl.zeros([D], tl.float32)
    for at in range(tl.load(offsets + bag), end):
        total += tl.load(table + tl.load(ids + at) * D + d)
    tl.store(out + bag * D + d, total)


def bag() -> None:
    bag_kernel[(5,)](ints(STARTS[:5]), ints(COLUMNS), floats(), floats(), 16, D=DIM)


@counted
def count_bag() -> Elements:
    return 4 + 5 + 16 * (1 + DIM), 5 * DIM, 0
