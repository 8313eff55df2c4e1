"""Kernels on ragged sequences and tables, with their data and a count by loops.

As in `sparse_kernels`: elements of 4 bytes that are read, written and updated atomically.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.support.targets.sparse_kernels import DIM, Count, Elements, floats, ints

COUNTS: dict[str, Count] = {}
LENGTHS = [5, 0, 12, 16, 7]
STARTS = [0, 5, 5, 17, 33, 40]
EXPERTS = [2, 0, -1, 1, 2, -1]
TILES = [0, 1, 2, 0, 1, 1]


def counted(count: Count) -> Count:
    """Store a count under its kernel's name."""
    COUNTS[count.__name__.removeprefix("count_")] = count
    return count


@triton.jit
def padded_kernel(starts, x, out, LONGEST: tl.constexpr, B: tl.constexpr):
    sequence, at = tl.program_id(0), tl.program_id(1) * B + tl.arange(0, B)
    start = tl.load(starts + sequence)
    length = tl.load(starts + sequence + 1) - start
    tl.store(out + sequence * LONGEST + at, tl.load(x + start + at, mask=at < length, other=0.0))


def padded() -> None:
    padded_kernel[(5, 4)](ints(STARTS), floats(), floats(), LONGEST=16, B=4)


@counted
def count_padded() -> Elements:
    return 2 * 20 + sum(LENGTHS), 5 * 16, 0


@triton.jit
def packed_kernel(starts, x, out, LONGEST: tl.constexpr, B: tl.constexpr):
    sequence, first = tl.program_id(0), tl.program_id(1) * B
    start = tl.load(starts + sequence)
    length = tl.load(starts + sequence + 1) - start
    if first >= length:
        return
    at = first + tl.arange(0, B)
    tl.store(out + start + at, tl.load(x + sequence * LONGEST + at), mask=at < length)


def packed() -> None:
    packed_kernel[(5, 4)](ints(STARTS), floats(), floats(), LONGEST=16, B=4)


@counted
def count_packed() -> Elements:
    return 2 * 20 + sum(4 for length in LENGTHS for first in range(0, 16, 4) if first < length), sum(LENGTHS), 0


@triton.jit
def causal_kernel(lengths, q, k, out, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, LONGEST: tl.constexpr):
    """Skip tiles past the end of a sequence and past the diagonal."""
    sequence, first = tl.program_id(0), tl.program_id(1) * BM
    length = tl.load(lengths + sequence)
    if first < length:
        row, d = first + tl.arange(0, BM), tl.arange(0, D)
        base = sequence * LONGEST * D
        query = tl.load(q + base + row[:, None] * D + d[None, :], mask=row[:, None] < length, other=0.0)
        total = tl.zeros([BM], tl.float32)
        for start in range(0, tl.minimum(length, first + BM), BN):
            column = start + tl.arange(0, BN)
            key = tl.load(k + base + column[:, None] * D + d[None, :], mask=column[:, None] < length, other=0.0)
            total += tl.sum(tl.sum(query, 1)[:, None] * tl.sum(key, 1)[None, :], 1)
        tl.store(out + sequence * LONGEST + row, total, mask=row < length)


def causal() -> None:
    causal_kernel[(5, 2)](ints(LENGTHS), floats(2048), floats(2048), floats(), BM=8, BN=4, D=DIM, LONGEST=16)


@counted
def count_causal() -> Elements:
    reads, writes = 10, 0
    for length in LENGTHS:
        for first in range(0, length, 8):
            rows = min(8, length - first)
            writes += rows
            keys = sum(min(4, length - start) for start in range(0, min(length, first + 8), 4))
            reads += DIM * (rows + keys)
    return reads, writes, 0


@triton.jit
def windowed_kernel(lengths, x, out, WINDOW: tl.constexpr, B: tl.constexpr):
    sequence, i = tl.program_id(0), tl.arange(0, B)
    length = tl.load(lengths + sequence)
    total = tl.zeros([B], tl.float32)
    for start in range(tl.maximum(length - WINDOW, 0), length, B):
        total += tl.load(x + sequence * 32 + start + i, mask=start + i < length, other=0.0)
    tl.store(out + sequence * B + i, total)


def windowed() -> None:
    windowed_kernel[(5,)](ints(LENGTHS), floats(), floats(), WINDOW=10, B=4)


@counted
def count_windowed() -> Elements:
    return 5 + sum(min(10, length) for length in LENGTHS), 5 * 4, 0


@triton.jit
def repeated_kernel(lengths, x, out, N: tl.constexpr, D: tl.constexpr):
    row, d, i = tl.program_id(0), tl.arange(0, D), tl.arange(0, N)
    length = tl.load(lengths + i, mask=i < 5, other=0)
    first = tl.sum(tl.where(i < row, length, 0), 0)
    value = tl.load(x + row * D + d)
    for copy in range(tl.sum(tl.where(i == row, length, 0), 0)):
        tl.store(out + (first + copy) * D + d, value)


def repeated() -> None:
    repeated_kernel[(5,)](ints(LENGTHS), floats(), floats(), N=8, D=DIM)


@counted
def count_repeated() -> Elements:
    return 5 * (5 + DIM), sum(LENGTHS) * DIM, 0


@triton.jit
def experts_kernel(experts, w, x, out, D: tl.constexpr):
    block, i = tl.program_id(0), tl.arange(0, D)
    expert = tl.load(experts + block)
    if expert == -1:
        return
    weight = tl.load(w + expert * D * D + i[:, None] * D + i[None, :])
    tl.store(out + block * D + i, tl.sum(weight * tl.load(x + block * D + i)[None, :], 1))


def experts() -> None:
    experts_kernel[(6,)](ints(EXPERTS), floats(), floats(), floats(), D=DIM)


@counted
def count_experts() -> Elements:
    used = sum(expert >= 0 for expert in EXPERTS)
    return 6 + used * (DIM * DIM + DIM), used * DIM, 0


@triton.jit
def adapters_kernel(adapter, ranks, a, x, out, MOST: tl.constexpr, D: tl.constexpr):
    """Multiply by the adapter of a sequence, whose rank is looked up."""
    sequence, d, r = tl.program_id(0), tl.arange(0, D), tl.arange(0, MOST)
    which = tl.load(adapter + sequence)
    rank = tl.load(ranks + which, mask=which >= 0, other=0)
    weight = tl.load(a + (which * MOST + r[:, None]) * D + d[None, :], mask=r[:, None] < rank, other=0.0)
    tl.store(out + sequence * MOST + r, tl.sum(weight * tl.load(x + sequence * D + d)[None, :], 1), mask=r < rank)


def adapters() -> None:
    adapters_kernel[(6,)](ints(EXPERTS), ints([4, 8, 1]), floats(), floats(), floats(), MOST=8, D=DIM)


@counted
def count_adapters() -> Elements:
    ranks = [[4, 8, 1][one] if one >= 0 else 0 for one in EXPERTS]
    return 6 + sum(one >= 0 for one in EXPERTS) + sum(ranks) * DIM + 6 * DIM, sum(ranks), 0


@triton.jit
def scheduled_kernel(tiles, x, out, cols, B: tl.constexpr):
    tile, i = tl.program_id(0), tl.arange(0, B)
    row, column = tl.load(tiles + 2 * tile) * B + i, tl.load(tiles + 2 * tile + 1) * B + i
    mask = (row[:, None] < 20) & (column[None, :] < cols)
    place = row[:, None] * cols + column[None, :]
    tl.store(out + place, tl.load(x + place, mask=mask), mask=mask)


def scheduled() -> None:
    scheduled_kernel[(3,)](ints(TILES), floats(), floats(), 13, B=8)


@counted
def count_scheduled() -> Elements:
    pairs = zip(TILES[::2], TILES[1::2], strict=True)
    elements = sum(min(8, 20 - 8 * row) * min(8, 13 - 8 * column) for row, column in pairs)
    return 6 + elements, elements, 0


@triton.jit
def bits_kernel(words, x, out, B: tl.constexpr):
    word, i = tl.load(words + tl.program_id(0)), tl.arange(0, B)
    at = tl.program_id(0) * B + i
    mask = (word >> i) & 1 == 1
    tl.store(out + at, tl.load(x + at, mask=mask), mask=mask)


def bits() -> None:
    bits_kernel[(3,)](ints([0b1011, 0, 0x7FFF0001]), floats(), floats(), B=32)


@counted
def count_bits() -> Elements:
    elements = sum(word.bit_count() for word in (0b1011, 0, 0x7FFF0001))
    return 3 + elements, elements, 0


@triton.jit
def strided_kernel(strides, x, out, B: tl.constexpr):
    """Read every s-th element below 60, s loaded."""
    row, i = tl.program_id(0), tl.arange(0, B)
    stride = tl.load(strides + row)
    tl.store(out + row * B + i, tl.load(x + i * stride, mask=i * stride < 60, other=0.0))


def strided() -> None:
    strided_kernel[(4,)](ints([1, 2, 7, 60]), floats(), floats(), B=DIM)


@counted
def count_strided() -> Elements:
    return 4 + sum(i * stride < 60 for stride in (1, 2, 7, 60) for i in range(DIM)), 4 * DIM, 0


@triton.jit
def pooled_kernel(places, lengths, x, out, B: tl.constexpr):
    """Read tensors of one pool through a table of places."""
    i, row = tl.arange(0, B), tl.program_id(0)
    mask = i < tl.load(lengths + row)
    tl.store(out + row * B + i, tl.load(x + tl.load(places + row) + i, mask=mask), mask=mask)


def pooled() -> None:
    places = torch.arange(5, dtype=torch.int64, device="cuda") * 20
    pooled_kernel[(5,)](places, ints(LENGTHS), floats(), floats(), B=DIM)


@counted
def count_pooled() -> Elements:
    return 5 * 2 + 5 + sum(LENGTHS), sum(LENGTHS), 0


@triton.jit
def greatest_kernel(scores, x, out, D: tl.constexpr):
    """Read as many elements of the best row as its score says."""
    i, row = tl.arange(0, D), tl.program_id(0)
    score = tl.load(scores + row * 4 + tl.arange(0, 4))
    best, most = tl.argmax(score, 0), tl.max(score, 0)
    tl.store(out + row * D + i, tl.load(x + best * D + i, mask=i < most), mask=i < most)


def greatest() -> None:
    greatest_kernel[(3,)](ints([3, 9, 1, 2, 0, 0, 0, 5, 11, 4, 4, 4]), floats(), floats(), D=DIM)


@counted
def count_greatest() -> Elements:
    return 12 + 9 + 5 + 11, 9 + 5 + 11, 0
