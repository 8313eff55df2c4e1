"""Kernels with different loops.

They have bounds, steps, persistent and while loops, and carried values.
"""

# ruff: noqa: PIE808 - kernels are written as in user code
from __future__ import annotations

import triton
import triton.language as tl
from sympy import ceiling

from tests.support.ir_zoo.compiled import Launched, Tensor, symbols

N, M, K, S, G = symbols("N M K S G")
ZOO: dict[str, Launched] = {}


@triton.jit
def triangular(x, out, n, B: tl.constexpr, C: tl.constexpr):
    """A causal loop: later programs read more."""
    pid = tl.program_id(0)
    total = tl.zeros([C], tl.float32)
    for j in range(0, tl.minimum((pid + 1) * B, n), C):
        at = j + tl.arange(0, C)
        total += tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + pid * C + tl.arange(0, C), total)


ZOO["triangular"] = Launched(
    triangular, [Tensor(N), Tensor(16 * ceiling(N / 32)), N], [ceiling(N / 32)],
    [{"N": 100}, {"N": 7}, {"N": 128}], {"B": 32, "C": 16},
)  # fmt: skip
ZOO["triangular_uneven"] = Launched(
    triangular, [Tensor(N), Tensor(64 * ceiling(N / 48)), N], [ceiling(N / 48)],
    [{"N": 100}, {"N": 200}], {"B": 48, "C": 64},
)  # fmt: skip


@triton.jit
def nested(x, out, n, m):
    pid = tl.program_id(0)
    for i in range(0, n):
        for j in range(i, tl.minimum(i + m, n)):
            for _ in range(pid):
                tl.store(out + j, tl.load(x + i * n + j))


ZOO["nested"] = Launched(nested, [Tensor(N * N), Tensor(N), N, M], [3], [{"N": 5, "M": 2}, {"N": 3, "M": 7}])


@triton.jit
def stepped(x, first, last, step, B: tl.constexpr):
    for i in range(first, last, step):
        at = i + tl.arange(0, B)
        tl.store(x + at, 0.0, mask=at < last)


ZOO["stepped"] = Launched(
    stepped, [Tensor(N), M, N, S], [1], [{"N": 40, "M": 3, "S": 7}, {"N": 40, "M": 39, "S": 16}, {"N": 9, "M": 20, "S": 2}],
    {"B": 8},
)  # fmt: skip


@triton.jit
def backwards(x, n, B: tl.constexpr):
    for i in range(n - 1, -1, -1):
        tl.store(x + i * B + tl.arange(0, B), 0.0)


ZOO["backwards"] = Launched(backwards, [Tensor(8 * N), N], [1], [{"N": 5}], {"B": 8})


@triton.jit
def persistent(x, tiles, PROGRAMS: tl.constexpr, B: tl.constexpr):
    for i in range(tl.program_id(0), tiles, PROGRAMS):
        tl.store(x + i * B + tl.arange(0, B), 0.0)


ZOO["persistent"] = Launched(persistent, [Tensor(8 * N), N], [4], [{"N": 11}, {"N": 2}, {"N": 4}], {"PROGRAMS": 4, "B": 8})


@triton.jit
def persistent_by_grid(x, rows, columns, B: tl.constexpr):
    lanes = tl.arange(0, B)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        at = x + row * columns + lanes
        tl.store(at, tl.load(at, mask=lanes < columns), mask=lanes < columns)


ZOO["persistent_by_grid"] = Launched(
    persistent_by_grid, [Tensor(N * M), N, M], [G], [{"N": 11, "M": 9, "G": 3}, {"N": 2, "M": 16, "G": 5}], {"B": 16}
)


@triton.jit
def persistent_tiles(x, out, m, n, PROGRAMS: tl.constexpr, T: tl.constexpr):
    """A persistent loop over ragged tiles.

    The coordinates are a quotient and a remainder.
    """
    columns = tl.cdiv(n, T)
    for t in range(tl.program_id(0), tl.cdiv(m, T) * columns, PROGRAMS):
        i = t // columns * T + tl.arange(0, T)[:, None]
        j = t % columns * T + tl.arange(0, T)[None, :]
        inside = (i < m) & (j < n)
        tl.store(out + i * n + j, tl.load(x + i * n + j, mask=inside), mask=inside)


ZOO["persistent_tiles"] = Launched(
    persistent_tiles, [Tensor(M * N), Tensor(M * N), M, N], [3],
    [{"M": 20, "N": 40}, {"M": 33, "N": 16}], {"PROGRAMS": 3, "T": 16},
)  # fmt: skip


@triton.jit
def while_loop(x, n, step, B: tl.constexpr):
    i = tl.program_id(0)
    while i < n:
        tl.store(x + i * B + tl.arange(0, B), 0.0)
        i += step


ZOO["while_loop"] = Launched(while_loop, [Tensor(8 * N), N, S], [3], [{"N": 10, "S": 3}, {"N": 2, "S": 4}], {"B": 8})


@triton.jit
def while_both(x, n, m):
    i = 0
    j = 0
    while (i < n) & (j < m):
        tl.store(x + i, tl.load(x + j))
        i += 2
        j += 1


ZOO["while_both"] = Launched(while_both, [Tensor(N + M), N, M], [1], [{"N": 10, "M": 3}, {"N": 3, "M": 9}])


@triton.jit
def unrolled(x, out, n, B: tl.constexpr, TIMES: tl.constexpr):
    lanes = tl.arange(0, B)
    for i in tl.static_range(TIMES):
        at = (tl.program_id(0) * TIMES + i) * B + lanes
        tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


ZOO["unrolled"] = Launched(
    unrolled, [Tensor(N), Tensor(N), N], [ceiling(N / 48)], [{"N": 100}, {"N": 48}], {"B": 16, "TIMES": 3}
)


@triton.jit
def advancing(x, out, n, B: tl.constexpr):
    source = x + tl.arange(0, B)
    target = out
    for i in range(0, n, B):
        tl.store(target + tl.arange(0, B), tl.load(source, mask=tl.arange(0, B) < n - i), mask=i + tl.arange(0, B) < n)
        source += B
        target += B
    tl.store(target, 1.0)


ZOO["advancing"] = Launched(advancing, [Tensor(N), Tensor(N + 16), N], [2], [{"N": 40}, {"N": 16}], {"B": 16})


@triton.jit
def advancing_twice(x, out, n, m, B: tl.constexpr):
    """Pointers carried through two loops, and an offset that grows."""
    lanes = tl.arange(0, B)
    at = lanes
    gap = 0
    for _ in range(n):
        for _ in range(m):
            tl.store(out + at, tl.load(x + at))
            at += B
        at += gap
        gap += 2
    tl.store(out + at, 0.0, mask=at < 100)


ZOO["advancing_twice"] = Launched(
    advancing_twice, [Tensor(1000), Tensor(1000), N, M], [1], [{"N": 3, "M": 2}, {"N": 4, "M": 3}], {"B": 8}
)


@triton.jit
def data_dependent_steps(x, out, n, B: tl.constexpr):
    """A pointer that advances by one row or two.

    The choice depends on a number that no formula follows.
    """
    lanes = tl.arange(0, B)
    number = 3
    for i in range(n):
        tl.store(out + i * B + lanes, tl.load(x + lanes))
        if number > 3:
            x += 2 * B
        else:
            x += B
        number = number * number % 7


ZOO["data_dependent_steps"] = Launched(
    data_dependent_steps, [Tensor(16 * N), Tensor(8 * N), N], [1], [{"N": 1}, {"N": 9}], {"B": 8}
)


@triton.jit
def lagging(x, n, B: tl.constexpr):
    """A mask from the previous iteration."""
    lanes = tl.arange(0, B)
    before = 3
    for i in range(n):
        tl.store(x + i * B + lanes, 1.0, mask=lanes < before)
        before = i


ZOO["lagging"] = Launched(lagging, [Tensor(16 * N), N], [1], [{"N": 5}, {"N": 1}], {"B": 16})


@triton.jit
def split_k(x, out, n, share, B: tl.constexpr):
    part = tl.program_id(0)
    first = part * share
    last = tl.minimum(first + share, n)
    total = tl.zeros([B], tl.float32)
    for start in range(first, last, B):
        at = start + tl.arange(0, B)
        total += tl.load(x + at, mask=at < last, other=0.0)
    tl.atomic_add(out + tl.arange(0, B), total)


ZOO["split_k"] = Launched(
    split_k, [Tensor(N), Tensor(8), N, ceiling(N / G)], [G], [{"N": 50, "G": 3}, {"N": 7, "G": 4}], {"B": 8}
)


@triton.jit
def convolution(x, w, out, n, taps, B: tl.constexpr):
    """Overlapping windows that extend over both ends."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for t in range(taps):
        source = at + t - taps // 2
        total += tl.load(x + source, mask=(source >= 0) & (source < n), other=0.0) * tl.load(w + t)
    tl.store(out + at, total, mask=at < n)


ZOO["convolution"] = Launched(
    convolution, [Tensor(N), Tensor(K), Tensor(N), N, K], [ceiling(N / 16)], [{"N": 40, "K": 5}, {"N": 9, "K": 30}], {"B": 16}
)
