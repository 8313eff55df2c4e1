"""Kernels with different assignments of tiles to programs."""

from __future__ import annotations

import triton
import triton.language as tl
from sympy import Min, ceiling

from tests.support.ir_zoo.compiled import Launched, Tensor, symbols

G, K, M, N = symbols("G K M N")
ZOO: dict[str, Launched] = {}


@triton.jit
def serpentine(x, n, B: tl.constexpr):
    """Each program computes its number of tiles."""
    tiles = tl.cdiv(n, B)
    for i in range(tl.cdiv(tiles - tl.program_id(0), tl.num_programs(0))):
        at = (i * tl.num_programs(0) + tl.program_id(0)) * B + tl.arange(0, B)
        tl.store(x + at, 1.0, mask=at < n)


ZOO["serpentine"] = Launched(
    serpentine, [Tensor(N), N], [Min(5, ceiling(N / 16))], [{"N": 1}, {"N": 77}, {"N": 160}, {"N": 81}], {"B": 16}
)


@triton.jit
def paired(x, n, m, B: tl.constexpr):
    """Tiles in pairs, the longest with the shortest, as under a causal mask.

    The middle one of an odd number has no partner.
    """
    tiles = tl.cdiv(n, B)
    pairs = tl.cdiv(tiles, 2)
    for i in range(tl.cdiv(pairs * m - tl.program_id(0), tl.num_programs(0)) * 2):
        item = (i // 2) * tl.num_programs(0) + tl.program_id(0)
        pair = item % pairs
        tile = tiles - 1 - pair
        if i % 2 == 1:
            tile = pair if pair < tile else tiles
        at = tile * B + tl.arange(0, B)
        for j in range(tl.minimum(tile + 1, tiles)):
            tl.store(x + (item // pairs * n + at) * tiles + j, 1.0, mask=at < n)


ZOO["paired"] = Launched(
    paired, [Tensor(M * N * ceiling(N / 16)), N, M], [Min(3, M * ceiling(ceiling(N / 16) / 2))],
    [{"N": 1, "M": 1}, {"N": 16, "M": 4}, {"N": 40, "M": 2}, {"N": 64, "M": 3}, {"N": 70, "M": 1}], {"B": 16},
)  # fmt: skip


@triton.jit
def grouped(x, m, n, T: tl.constexpr, GROUP: tl.constexpr):
    """The persistent matmul's order.

    The row within a group is the remainder of the tile index itself.
    """
    high, wide = tl.cdiv(m, T), tl.cdiv(n, T)
    for tile in range(tl.program_id(0), high * wide, tl.num_programs(0)):
        first = tile // (GROUP * wide) * GROUP
        height = tl.minimum(high - first, GROUP)
        i = (first + tile % height) * T + tl.arange(0, T)[:, None]
        j = tile % (GROUP * wide) // height * T + tl.arange(0, T)[None, :]
        tl.store(x + i * n + j, tl.load(x + i * n + j, mask=(i < m) & (j < n)), mask=(i < m) & (j < n))


ZOO["grouped"] = Launched(
    grouped, [Tensor(M * N), M, N], [Min(4, ceiling(M / 16) * ceiling(N / 16))],
    [{"M": 20, "N": 40}, {"M": 100, "N": 16}, {"M": 7, "N": 100}], {"T": 16, "GROUP": 3},
)  # fmt: skip


@triton.jit
def serpentine_longest_first(x, n, m, B: tl.constexpr):
    """Rows in order of falling length, assigned in serpentine order."""
    blocks = tl.cdiv(n, B)
    rounds = blocks * m // tl.num_programs(0)
    left = blocks * m - rounds * tl.num_programs(0)
    last = tl.program_id(0) if rounds % 2 == 0 else tl.num_programs(0) - 1 - tl.program_id(0)
    for t in range(rounds + (last < left).to(tl.int32)):
        position = tl.program_id(0) if t % 2 == 0 else tl.num_programs(0) - 1 - tl.program_id(0)
        tile = t * tl.num_programs(0) + position
        block = blocks - 1 - tile // m
        at = block * B + tl.arange(0, B)
        for j in range(block + 1):
            tl.store(x + ((tile % m) * n + at) * blocks + j, 1.0, mask=at < n)


ZOO["serpentine_longest_first"] = Launched(
    serpentine_longest_first, [Tensor(M * N * ceiling(N / 16)), N, M], [Min(5, M * ceiling(N / 16))],
    [{"N": 1, "M": 1}, {"N": 16, "M": 4}, {"N": 40, "M": 2}, {"N": 64, "M": 3}, {"N": 70, "M": 6}], {"B": 16},
)  # fmt: skip


@triton.jit
def false_serpentine(x, n, B: tl.constexpr):
    """The last round is assigned as in serpentine order, but no round is reversed.

    So some tiles are left out.
    """
    tiles = tl.cdiv(n, B)
    rounds = tiles // tl.num_programs(0)
    left = tiles - rounds * tl.num_programs(0)
    last = tl.program_id(0) if rounds % 2 == 0 else tl.num_programs(0) - 1 - tl.program_id(0)
    for t in range(rounds + (last < left).to(tl.int32)):
        at = (t * tl.num_programs(0) + tl.program_id(0)) * B + tl.arange(0, B)
        tl.store(x + at, 1.0, mask=at < n)


ZOO["false_serpentine"] = Launched(
    false_serpentine, [Tensor(N), N], [Min(5, ceiling(N / 16))], [{"N": 1}, {"N": 77}, {"N": 16 * 8}, {"N": 81}], {"B": 16}
)


@triton.jit
def whole_rounds_and_remainder(x, n, B: tl.constexpr, PROGRAMS: tl.constexpr):
    """Each program has a fixed number of tiles and steps on from its last tile.

    The first programs have one more tile.
    """
    tiles = tl.cdiv(n, B)
    mine = tiles // PROGRAMS
    if tl.program_id(0) < tiles % PROGRAMS:
        mine += 1
    tile = tl.program_id(0) - PROGRAMS
    for _ in range(mine):
        tile += PROGRAMS
        at = tile * B + tl.arange(0, B)
        tl.store(x + at, tl.load(x + at, mask=at < n), mask=at < n)


ZOO["whole_rounds_and_remainder"] = Launched(
    whole_rounds_and_remainder, [Tensor(N), N], [Min(5, ceiling(N / 16))],
    [{"N": 1}, {"N": 77}, {"N": 160}, {"N": 81}, {"N": 90}], {"B": 16, "PROGRAMS": 5},
)  # fmt: skip


@triton.jit
def counter_reset(x, out, n, m, k, B: tl.constexpr):
    """A counter is reset and a pointer jumps: rows first .. n - 1 of each of k heads."""
    first = tl.minimum(tl.program_id(0), n - 1)
    i = first
    at = x + first * B + tl.arange(0, B)
    for _ in range((n - first) * k):
        tl.store(out + i * B + tl.arange(0, B), tl.load(at, mask=tl.arange(0, B) < m))
        i += 1
        at += B
        if i == n:
            i = first
            at += first * B


ZOO["counter_reset"] = Launched(
    counter_reset, [Tensor(16 * N * K), Tensor(16 * N), N, M, K], [G],
    [{"N": 5, "M": 9, "K": 3, "G": 4}, {"N": 2, "M": 16, "K": 1, "G": 6}, {"N": 1, "M": 3, "K": 4, "G": 2}], {"B": 16},
)  # fmt: skip
