"""Kernels that walk trees, tables and lists, with a count by loops.

`COUNTS` is as in `sparse_kernels`: elements of 4 bytes that are read, written and updated atomically.
"""

from __future__ import annotations

from itertools import pairwise

import triton
import triton.language as tl

from tests.support.targets.sparse_kernels import Count, Elements, floats, ints

COUNTS: dict[str, Count] = {}
D = 16
PARENTS = [0, 0, 1, 1, 4, 4, 5, 3]
LEFT, RIGHT, KEYS = [1, 3, -1, -1, 5, -1], [2, 4, -1, -1, -1, -1], [50, 25, 75, 10, 35, 30]
TABLE, KEPT = [-1, 17, 9, 25, -1, 5, 13, -1], [17, 25, 5, 13, 33, 4]
DRAFT = [[4, 8, 1, 5], [2, 2, 6, 7], [9, 1, 1, 3], [4, 4, 4, 4]]
TARGET = [[4, 8, 2, 5], [2, 2, 6, 7], [8, 1, 1, 3], [4, 4, 4, 5]]
JUMPS = [3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 8, 9]
ONES = [[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0]]
RUNS = [3, 0, 7, 1, 5]
A, B = [1, 4, 6, 9, 12], [2, 3, 6, 7, 20, 30]


def counted(count: Count) -> Count:
    """Store a count under its kernel's name."""
    COUNTS[count.__name__.removeprefix("count_")] = count
    return count


@triton.jit
def root_kernel(parents, out):
    at = tl.program_id(0)
    parent = tl.load(parents + at)
    while parent != at:
        at = parent
        parent = tl.load(parents + at)
    tl.store(out + tl.program_id(0), at)


def root() -> None:
    root_kernel[(8,)](ints(PARENTS), ints([0] * 8))


@counted
def count_root() -> Elements:
    reads = 0
    for at in range(8):
        reads += 1
        while PARENTS[at] != at:
            at, reads = PARENTS[at], reads + 1
    return reads, 8, 0


@triton.jit
def descent_kernel(left, right, keys, queries, out):
    query = tl.load(queries + tl.program_id(0))
    at, depth = 0, 0
    while at >= 0:
        key = tl.load(keys + at)
        at = tl.load(left + at) if query < key else tl.load(right + at)
        depth += 1
    tl.store(out + tl.program_id(0), depth)


def descent() -> None:
    descent_kernel[(5,)](ints(LEFT), ints(RIGHT), ints(KEYS), ints([5, 28, 35, 60, 99]), ints([0] * 5))


@counted
def count_descent() -> Elements:
    steps = 0
    for query in (5, 28, 35, 60, 99):
        at = 0
        while at >= 0:
            at, steps = (LEFT if query < KEYS[at] else RIGHT)[at], steps + 1
    return 5 + 2 * steps, 5, 0


@triton.jit
def probed_kernel(table, keys, values, out, SIZE: tl.constexpr, D: tl.constexpr):
    """Look keys up in a table with linear probing, and read the rows that are there."""
    key, d = tl.load(keys + tl.program_id(0)), tl.arange(0, D)
    slot = key % SIZE
    found = tl.load(table + slot)
    while (found != key) & (found != -1):
        slot = (slot + 1) % SIZE
        found = tl.load(table + slot)
    tl.store(out + tl.program_id(0) * D + d, tl.load(values + slot * D + d, mask=d < (found == key).to(tl.int32) * D))


def probed() -> None:
    probed_kernel[(6,)](ints(TABLE), ints(KEPT), floats(), floats(), SIZE=8, D=D)


@counted
def count_probed() -> Elements:
    reads = 0
    for key in KEPT:
        slot = key % 8
        while TABLE[slot] not in (key, -1):
            slot, reads = (slot + 1) % 8, reads + 1
        reads += 2 + D * (TABLE[slot] == key)
    return reads, 6 * D, 0


@triton.jit
def accepted_kernel(draft, target, states, out, LENGTH: tl.constexpr, D: tl.constexpr):
    """Copy the states of drafted tokens up to the first that the target model rejects."""
    row, d = tl.program_id(0), tl.arange(0, D)
    at, agree = 0, 1
    while (at < LENGTH) & (agree == 1):
        agree = (tl.load(draft + row * LENGTH + at) == tl.load(target + row * LENGTH + at)).to(tl.int32)
        if agree == 1:
            place = (row * LENGTH + at) * D + d
            tl.store(out + place, tl.load(states + place))
        at += 1


def accepted() -> None:
    flat = [token for row in DRAFT for token in row], [token for row in TARGET for token in row]
    accepted_kernel[(4,)](ints(flat[0]), ints(flat[1]), floats(), floats(), LENGTH=4, D=D)


@counted
def count_accepted() -> Elements:
    compared = agreed = 0
    for drafted, wanted in zip(DRAFT, TARGET, strict=True):
        for token, other in zip(drafted, wanted, strict=True):
            compared += 1
            if token != other:
                break
            agreed += 1
    return 2 * compared + agreed * D, agreed * D, 0


@triton.jit
def jumping_kernel(jumps, x, out, n, D: tl.constexpr):
    at, d = tl.program_id(0), tl.arange(0, D)
    total = tl.zeros([D], tl.float32)
    while at < n:
        total += tl.load(x + at * D + d)
        at += tl.load(jumps + at)
    tl.store(out + tl.program_id(0) * D + d, total)


def jumping() -> None:
    jumping_kernel[(4,)](ints(JUMPS), floats(), floats(), 12, D=D)


@counted
def count_jumping() -> Elements:
    steps = 0
    for at in range(4):
        while at < 12:
            at, steps = at + JUMPS[at], steps + 1
    return steps * (D + 1), 4 * D, 0


@triton.jit
def blocks_kernel(mask, q, k, out, COLUMNS: tl.constexpr, D: tl.constexpr):
    """Read the blocks of K that a block mask leaves, as block-sparse attention does."""
    row, d = tl.program_id(0), tl.arange(0, D)
    total = tl.load(q + row * D + d)
    for column in range(COLUMNS):
        if tl.load(mask + row * COLUMNS + column) != 0:
            total += tl.sum(tl.load(k + (column * D + d[:, None]) * D + d[None, :]), 0)
    tl.store(out + row * D + d, total)


def blocks() -> None:
    blocks_kernel[(3,)](ints([one for row in ONES for one in row]), floats(), floats(), floats(), COLUMNS=4, D=D)


@counted
def count_blocks() -> Elements:
    kept = sum(one for row in ONES for one in row)
    return 3 * D + 12 + kept * D * D, 3 * D, 0


@triton.jit
def decoded_kernel(runs, values, out, RUNS: tl.constexpr, B: tl.constexpr):
    """Write each value as often as its run is long, one after the other."""
    at, i = 0, tl.arange(0, B)
    for run in range(RUNS):
        length = tl.load(runs + run)
        if length > 0:
            tl.store(out + at + i, tl.load(values + run) + tl.zeros([B], tl.float32), mask=i < length)
        at += length


def decoded() -> None:
    decoded_kernel[(1,)](ints(RUNS), floats(), floats(), RUNS=5, B=8)


@counted
def count_decoded() -> Elements:
    return 5 + sum(run > 0 for run in RUNS), sum(RUNS), 0


@triton.jit
def merged_kernel(a, b, out, ends):
    """Merge two sorted lists in one program."""
    m, n = tl.load(ends), tl.load(ends + 1)
    i, j, at = 0, 0, 0
    while (i < m) & (j < n):
        left, right = tl.load(a + i), tl.load(b + j)
        if left <= right:
            tl.store(out + at, left)
            i += 1
        else:
            tl.store(out + at, right)
            j += 1
        at += 1


def merged() -> None:
    merged_kernel[(1,)](ints(A), ints(B), ints([0] * 16), ints([len(A), len(B)]))


@counted
def count_merged() -> Elements:
    i = j = 0
    while i < len(A) and j < len(B):
        i, j = (i + 1, j) if A[i] <= B[j] else (i, j + 1)
    return 2 + 2 * (i + j), i + j, 0


@triton.jit
def heads_kernel(x, values, out, n, B: tl.constexpr, D: tl.constexpr):
    """Read one row for each run of equal neighbours."""
    i = tl.program_id(0)
    here = tl.load(x + i)
    before = tl.load(x + i - 1, mask=i > 0, other=-1)
    d = tl.arange(0, D)
    tl.store(out + i * D + d, tl.load(values + i * D + d, mask=d < tl.where(here != before, D, 0)))


LISTED = [2, 2, 3, 3, 3, 1, 1, 9, 2, 2]


def heads() -> None:
    heads_kernel[(10,)](ints(LISTED), floats(), floats(), 10, B=16, D=D)


@counted
def count_heads() -> Elements:
    first = 1 + sum(one != other for one, other in pairwise(LISTED))
    return 10 + 9 + first * D, 10 * D, 0


@triton.jit
def words_kernel(widths, words, out, D: tl.constexpr):
    """Unpack groups of numbers, whose width of 2, 4 or 8 bits decides the words."""
    group, d = tl.program_id(0), tl.arange(0, D)
    width = tl.load(widths + group)
    per_word = 32 // width
    packed = tl.load(words + group * D + d, mask=d < (D + per_word - 1) // per_word, other=0)
    tl.store(out + group * D + d, packed)


def words() -> None:
    words_kernel[(5,)](ints([2, 8, 4, 8, 2]), ints([1] * 80), ints([0] * 80), D=D)


@counted
def count_words() -> Elements:
    return 5 + sum(-(-D * width // 32) for width in (2, 8, 4, 8, 2)), 5 * D, 0


@triton.jit
def levels_kernel(starts, members, x, out, LEVEL: tl.constexpr, D: tl.constexpr):
    """Add up the rows of one level, whose list persistent programs share."""
    d = tl.arange(0, D)
    for at in range(tl.load(starts + LEVEL) + tl.program_id(0), tl.load(starts + LEVEL + 1), tl.num_programs(0)):
        row = tl.load(members + at)
        tl.atomic_add(out + row * D + d, tl.load(x + row * D + d), mask=d < row)


MEMBERS = [0, 4, 2, 7, 1, 5, 3, 6]


def levels() -> None:
    levels_kernel[(2,)](ints([0, 2, 7, 8]), ints(MEMBERS), floats(), floats(), LEVEL=1, D=D)


@counted
def count_levels() -> Elements:
    rows = MEMBERS[2:7]
    return 2 * 2 + len(rows) * (1 + D), 0, sum(min(row, D) for row in rows)


@triton.jit
def traced_back_kernel(parents, last, out, STEPS: tl.constexpr, BEAMS: tl.constexpr):
    """Follow the parents of a beam from its last step to its first."""
    beam = tl.load(last + tl.program_id(0))
    step = STEPS - 1
    while (step >= 0) & (beam >= 0):
        tl.store(out + tl.program_id(0) * STEPS + step, beam)
        beam = tl.load(parents + step * BEAMS + beam)
        step -= 1


BEAMS = [[-1, -1, -1], [0, 0, -1], [1, 2, 0], [2, 2, 1]]


def traced_back() -> None:
    traced_back_kernel[(3,)](ints([one for row in BEAMS for one in row]), ints([0, 1, 2]), ints([0] * 12), STEPS=4, BEAMS=3)


@counted
def count_traced_back() -> Elements:
    steps = 0
    for beam in range(3):
        step = 3
        while step >= 0 and beam >= 0:
            beam, step, steps = BEAMS[step][beam], step - 1, steps + 1
    return 3 + steps, steps, 0


@triton.jit
def matched_kernel(x, y, lengths, out):
    """Find how long a common prefix of two texts is."""
    row = tl.program_id(0)
    end, at = tl.load(lengths + row), 0
    same = at < end
    while same:
        same = tl.load(x + row * 4 + at) == tl.load(y + row * 4 + at)
        at += same.to(tl.int32)
        same = same & (at < end)
    tl.store(out + row, at)


def matched() -> None:
    flat = [token for row in DRAFT for token in row], [token for row in TARGET for token in row]
    matched_kernel[(4,)](ints(flat[0]), ints(flat[1]), ints([4, 3, 0, 4]), ints([0] * 4))


@counted
def count_matched() -> Elements:
    reads = 4
    for row, end in enumerate((4, 3, 0, 4)):
        for at in range(end):
            reads += 2
            if DRAFT[row][at] != TARGET[row][at]:
                break
    return reads, 4, 0


@triton.jit
def rows_below_kernel(limits, x, out, n, B: tl.constexpr):
    """Read a triangle whose rows end where the data say."""
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    limit = tl.load(limits + tl.arange(0, B), mask=tl.arange(0, B) < n, other=0)
    inside = j < limit[:, None]
    tl.store(out + i * B + j, tl.load(x + i * B + j, mask=inside, other=0.0), mask=inside)


def rows_below() -> None:
    rows_below_kernel[(1,)](ints(JUMPS), floats(), floats(), 12, B=D)


@counted
def count_rows_below() -> Elements:
    return 12 + sum(JUMPS), sum(JUMPS), 0


@triton.jit
def two_levels_kernel(directory, pages, lengths, x, out, SIZE: tl.constexpr, D: tl.constexpr):
    """Read a sequence through a directory of page tables."""
    row, d = tl.program_id(0), tl.arange(0, D)
    total, length = tl.zeros([D], tl.float32), tl.load(lengths + row)
    table = tl.load(directory + row)
    for first in range(0, length, SIZE):
        page = tl.load(pages + table + first // SIZE)
        for token in range(min(SIZE, length - first)):
            total += tl.load(x + (page * SIZE + token) * D + d)
    tl.store(out + row * D + d, total)


SEQUENCES = [5, 0, 9, 4]


def two_levels() -> None:
    two_levels_kernel[(4,)](ints([3, 0, 0, 5]), ints([2, 5, 1, 0, 4, 3, 6]), ints(SEQUENCES), floats(), floats(), SIZE=4, D=D)


@counted
def count_two_levels() -> Elements:
    return 4 * 2 + sum(-(-length // 4) + length * D for length in SEQUENCES), 4 * D, 0


@triton.jit
def votes_kernel(classes, weights, out, n, B: tl.constexpr):
    """Add up the weights of one class, and pass over the others."""
    at = tl.arange(0, B)
    chosen = tl.load(classes + at, mask=at < n, other=-1) == tl.program_id(0)
    weight = tl.load(weights + at, mask=chosen, other=0.0)
    tl.atomic_add(out + at, weight, mask=chosen & (at % 2 == 0))


def votes() -> None:
    votes_kernel[(4,)](ints(LISTED), floats(), floats(), 10, B=D)


@counted
def count_votes() -> Elements:
    chosen = [at for at, one in enumerate(LISTED) if one < 4]
    return 4 * 10 + len(chosen), 0, sum(at % 2 == 0 for at in chosen)
