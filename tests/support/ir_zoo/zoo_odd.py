"""Kernels at the edges.

They have descending or empty ranges, unusual masks, bits and remainders.
"""

from __future__ import annotations

import triton
import triton.language as tl
from sympy import ceiling

from tests.support.ir_zoo.compiled import Launched, Tensor, symbols

G, K, M, N, S, W = symbols("G K M N S W")
ZOO: dict[str, Launched] = {}


@triton.jit
def counts_down(x, out, n, B: tl.constexpr):
    for i in range(n, 0, -2):
        at = (i - 1) * B + tl.arange(0, B)
        tl.store(out + at, tl.load(x + at))


ZOO["counts_down"] = Launched(counts_down, [Tensor(8 * N), Tensor(8 * N), N], [1], [{"N": 1}, {"N": 2}, {"N": 7}], {"B": 8})


@triton.jit
def step_from_outside(x, n, step, B: tl.constexpr):
    for i in range(tl.program_id(0), n, step):
        tl.store(x + i * B + tl.arange(0, B), 1.0)


ZOO["step_from_outside"] = Launched(
    step_from_outside, [Tensor(8 * N), N, S], [G],
    [{"N": 11, "S": 3, "G": 3}, {"N": 11, "S": 2, "G": 4}, {"N": 3, "S": 7, "G": 5}], {"B": 8},
)  # fmt: skip


@triton.jit
def stairs(x, n, m, B: tl.constexpr):
    """A triangle in steps of three in the inner and two in the outer loop."""
    for i in range(0, tl.program_id(0) + 1, 3):
        for j in range(i, n, 2):
            tl.store(x + (i * n + j) * B + tl.arange(0, B), 1.0, mask=tl.arange(0, B) < m)


ZOO["stairs"] = Launched(
    stairs, [Tensor(8 * N * (G + 2)), N, M], [G],
    [{"N": 9, "M": 5, "G": 7}, {"N": 4, "M": 8, "G": 8}, {"N": 1, "M": 1, "G": 1}], {"B": 8},
)  # fmt: skip


@triton.jit
def upper_half(x, out, n, B: tl.constexpr):
    """Programs below the diagonal return at once."""
    i = tl.program_id(0)
    j = tl.program_id(1)
    if i > j:
        return
    at = (i * tl.num_programs(1) + j) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n))


ZOO["upper_half"] = Launched(
    upper_half, [Tensor(N), Tensor(8 * G * G), N], [G, G], [{"N": 100, "G": 5}, {"N": 9, "G": 1}, {"N": 33, "G": 3}], {"B": 8}
)


@triton.jit
def by_parity(x, y, out, n, B: tl.constexpr):
    """Each branch reads another tensor and another number of rows."""
    lanes = tl.arange(0, B)
    if tl.program_id(0) % 3 == 1:
        value = tl.load(x + tl.program_id(0) * B + lanes, mask=lanes < n)
    else:
        value = tl.load(y + lanes) + tl.load(y + B + lanes)
    tl.store(out + tl.program_id(0) * B + lanes, value)


ZOO["by_parity"] = Launched(
    by_parity, [Tensor(16 * G), Tensor(32), Tensor(16 * G), N], [G], [{"N": 5, "G": 7}, {"N": 16, "G": 1}, {"N": 40, "G": 9}],
    {"B": 16},
)  # fmt: skip


@triton.jit
def every_other(x, out, n):
    """One lane at a time, with the sum of a row in one store."""
    total = 0.0
    for i in range(n):
        if i % 2 == 0:
            total += tl.load(x + tl.program_id(0) * n + i)
    tl.store(out + tl.program_id(0), total)


ZOO["every_other"] = Launched(
    every_other, [Tensor(N * G), Tensor(G), N], [G], [{"N": 5, "G": 3}, {"N": 8, "G": 2}, {"N": 1, "G": 1}]
)


@triton.jit
def either_or(x, out, n, m, B: tl.constexpr):
    """A union as a mask, and its complement."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    mask = (at < n) | (at >= m)
    tl.store(out + at, tl.load(x + at, mask=mask), mask=~mask)


ZOO["either_or"] = Launched(
    either_or, [Tensor(16 * G), Tensor(16 * G), N, M], [G],
    [{"N": 5, "M": 9, "G": 2}, {"N": 20, "M": 10, "G": 2}, {"N": 1, "M": 100, "G": 3}], {"B": 16},
)  # fmt: skip


@triton.jit
def every_third(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    mask = (at * 3 + 1 < n) & (at % 2 == 0)
    tl.store(out + at, tl.load(x + at * 3, mask=at * 3 + 1 < n), mask=mask)


ZOO["every_third"] = Launched(
    every_third, [Tensor(48 * G), Tensor(16 * G), N], [G], [{"N": 5, "G": 2}, {"N": 60, "G": 2}, {"N": 1, "G": 1}], {"B": 16}
)


@triton.jit
def by_bits(x, out, n, B: tl.constexpr):
    """Rows from shifts and bit masks."""
    pid = tl.program_id(0)
    row, column = pid >> 2, pid & 3
    at = (row * 4 + column) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + (column << 3) + tl.arange(0, B)), mask=at < n)


ZOO["by_bits"] = Launched(
    by_bits, [Tensor(32), Tensor(8 * G), N], [G], [{"N": 50, "G": 7}, {"N": 8, "G": 1}, {"N": 100, "G": 9}], {"B": 8}
)


@triton.jit
def spread_out(x, out, n, B: tl.constexpr):
    """Programs renumbered so that neighbours are eight apart, as for chiplets."""
    pid = tl.program_id(0) % 8 * (tl.num_programs(0) // 8) + tl.program_id(0) // 8
    at = pid * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


ZOO["spread_out"] = Launched(
    spread_out, [Tensor(N), Tensor(N), N], [8 * G], [{"N": 100, "G": 1}, {"N": 256, "G": 2}, {"N": 333, "G": 3}], {"B": 16}
)


@triton.jit
def swizzled_2d(x, out, m, n, B: tl.constexpr):
    i, j = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), 2)
    row = i * B + tl.arange(0, B)[:, None]
    column = j * B + tl.arange(0, B)[None, :]
    inside = (row < m) & (column < n)
    tl.store(out + row * n + column, tl.load(x + row * n + column, mask=inside), mask=inside)


ZOO["swizzled_2d"] = Launched(
    swizzled_2d, [Tensor(M * N), Tensor(M * N), M, N], [ceiling(M / 16), ceiling(N / 16)],
    [{"M": 40, "N": 30}, {"M": 80, "N": 16}, {"M": 7, "N": 50}], {"B": 16},
)  # fmt: skip


@triton.jit
def toward_zero(x, out, G: tl.constexpr, B: tl.constexpr):
    """Division and remainder of possibly negative integers truncate as in C."""
    shifted = tl.program_id(0) - 3
    at = (shifted // 2 + 2) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=tl.arange(0, B) < shifted % 4 + 3))


ZOO["toward_zero"] = Launched(
    toward_zero, [Tensor(8 * (N + 4)), Tensor(8 * (N + 4))], [N], [{"N": 1}, {"N": 3}, {"N": 9}], {"G": 1, "B": 8}
)


@triton.jit
def window(x, out, n, left, right, B: tl.constexpr):
    """A band around the diagonal, cut at both ends, block by block."""
    row = tl.program_id(0) * B
    low = tl.maximum(row - left, 0) // B
    high = tl.cdiv(tl.minimum(row + B + right, n), B)
    for j in range(low, high):
        at = j * B + tl.arange(0, B)
        value = tl.load(x + at, mask=at < n)
        tl.store(out + (row + tl.arange(0, B)[:, None]) * n + at[None, :], value[None, :], mask=(at < n)[None, :])


ZOO["window"] = Launched(
    window, [Tensor(N), Tensor(N * (N + 16)), N, W, S], [ceiling(N / 16)],
    [{"N": 70, "W": 20, "S": 5}, {"N": 16, "W": 1, "S": 1}, {"N": 100, "W": 64, "S": 33}], {"B": 16},
)  # fmt: skip


@triton.jit
def until_flag(x, n, m, B: tl.constexpr):
    """A while loop whose condition is carried as a flag."""
    i = 0
    more = n > 0
    while more:
        tl.store(x + i * B + tl.arange(0, B), 1.0)
        i += 3
        more = i < n


ZOO["until_flag"] = Launched(
    until_flag, [Tensor(8 * (N + 3)), N, M], [1], [{"N": 1, "M": 1}, {"N": 7, "M": 1}, {"N": 9, "M": 2}], {"B": 8}
)


@triton.jit
def pointer_down(x, out, n, B: tl.constexpr):
    """A pointer that descends block by block."""
    at = x + (tl.cdiv(n, B) - 1) * B + tl.arange(0, B)
    left = n - (tl.cdiv(n, B) - 1) * B
    for i in range(tl.cdiv(n, B)):
        value = tl.load(at, mask=tl.arange(0, B) < left)
        tl.store(out + i * B + tl.arange(0, B), value)
        at -= B
        left = B


ZOO["pointer_down"] = Launched(pointer_down, [Tensor(N), Tensor(N + 16), N], [1], [{"N": 1}, {"N": 16}, {"N": 50}], {"B": 16})


@triton.jit
def never(x, n, m, B: tl.constexpr):
    """A range that is empty for some programs."""
    for i in range(tl.program_id(0) * 3, n - m):
        tl.store(x + i * B + tl.arange(0, B), 1.0)


ZOO["never"] = Launched(
    never,
    [Tensor(8 * (N + 3 * G)), N, M],
    [G],
    [{"N": 9, "M": 2, "G": 5}, {"N": 2, "M": 5, "G": 3}, {"N": 30, "M": 1, "G": 2}],
    {"B": 8},
)


@triton.jit
def added(x, counts, n, m, B: tl.constexpr):
    """Atomics that wrap around, under a mask."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + at, mask=at < n)
    tl.atomic_add(counts + at % m, value, mask=at < n)
    tl.atomic_add(counts, 3.0)


ZOO["added"] = Launched(
    added, [Tensor(N), Tensor(M), N, M], [ceiling(N / 16)], [{"N": 30, "M": 4}, {"N": 16, "M": 16}, {"N": 1, "M": 1}], {"B": 16}
)


@triton.jit
def shifted(a, b):
    return a + b, a - b


@triton.jit
def nested_calls(x, out, n, B: tl.constexpr, TWICE: tl.constexpr):
    """Functions that return tuples, inside static ranges and choices of constants."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    for k in tl.static_range(3):
        up, down = shifted(at, k)
        if TWICE and k == 1:
            tl.store(out + up, tl.load(x + down, mask=(down >= 0) & (down < n)), mask=up < n)
        elif k != 1:
            tl.store(out + up, 0.0, mask=up < n)


ZOO["nested_calls"] = Launched(
    nested_calls, [Tensor(N), Tensor(N), N], [ceiling(N / 16)], [{"N": 30}, {"N": 16}, {"N": 1}], {"B": 16, "TWICE": True}
)


@triton.jit
def shares_of_k(x, out, k, parts, B: tl.constexpr):
    """Each program of the second axis has a share of k, rounded up to blocks.

    The last may have none.
    """
    share = tl.cdiv(tl.cdiv(k, parts), B) * B
    first = tl.program_id(1) * share
    for i in range(first, tl.minimum(first + share, k), B):
        at = i + tl.arange(0, B)
        tl.store(out + tl.program_id(0) * k + at, tl.load(x + at, mask=at < k), mask=at < k)


ZOO["shares_of_k"] = Launched(
    shares_of_k, [Tensor(K), Tensor(K * G), K, S], [G, S],
    [{"K": 100, "S": 3, "G": 2}, {"K": 16, "S": 4, "G": 1}, {"K": 65, "S": 2, "G": 3}], {"B": 16},
)  # fmt: skip


@triton.jit
def halves(x, out, n, B: tl.constexpr):
    """A row read as two halves and written at once."""
    lanes = tl.arange(0, B)
    low = tl.load(x + tl.program_id(0) * n + lanes, mask=lanes < n // 2)
    high = tl.load(x + tl.program_id(0) * n + n // 2 + lanes, mask=lanes < n - n // 2)
    both = tl.join(low, high)
    at = tl.arange(0, B)[:, None] * 2 + tl.arange(0, 2)[None, :]
    tl.store(out + tl.program_id(0) * n + at, both, mask=at < n)


ZOO["halves"] = Launched(
    halves, [Tensor(N * G), Tensor(N * G), N], [G], [{"N": 9, "G": 3}, {"N": 16, "G": 1}, {"N": 30, "G": 2}], {"B": 16}
)
