"""Kernels with different active lanes.

They have masks, strides, tiles, and indices split and joined.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from sympy import ceiling

from tests.support.ir_zoo.compiled import Launched, Tensor, symbols

N, M, K, W, S, G = symbols("N M K W S G")
F16 = torch.float16
ZOO: dict[str, Launched] = {}


@triton.jit
def masked_add(x, y, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


ZOO["masked_add"] = Launched(
    masked_add, [Tensor(N), Tensor(N), Tensor(N), N], [ceiling(N / 64)], [{"N": 1}, {"N": 64}, {"N": 301}], {"B": 64}
)


@triton.jit
def unmasked(x, out, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at))


ZOO["unmasked"] = Launched(unmasked, [Tensor(32 * N), Tensor(32 * N, F16)], [N], [{"N": 3}], {"B": 32})


@triton.jit
def strided(x, out, n, stride, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at * stride, mask=at < n), mask=at < n)


ZOO["strided"] = Launched(
    strided, [Tensor(N * S, F16), Tensor(N, F16), N, S], [ceiling(N / 32)],
    [{"N": 70, "S": 1}, {"N": 70, "S": 3}, {"N": 33, "S": 40}], {"B": 32},
)  # fmt: skip


@triton.jit
def tile(x, out, rows, columns, R: tl.constexpr, C: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    column = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    inside = (row < rows) & (column < columns)
    tl.store(out + row * columns + column, tl.load(x + row * columns + column, mask=inside), mask=inside)


ZOO["tile"] = Launched(
    tile, [Tensor(M * N), Tensor(M * N), M, N], [ceiling(M / 16), ceiling(N / 32)],
    [{"M": 50, "N": 37}, {"M": 16, "N": 64}], {"R": 16, "C": 32},
)  # fmt: skip


@triton.jit
def transpose(x, out, rows, columns, T: tl.constexpr):
    row = tl.program_id(0) * T + tl.arange(0, T)
    column = tl.program_id(1) * T + tl.arange(0, T)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    values = tl.load(x + row[:, None] * columns + column[None, :], mask=inside)
    tl.store(out + column[:, None] * rows + row[None, :], tl.trans(values), mask=tl.trans(inside))


ZOO["transpose"] = Launched(
    transpose, [Tensor(M * N), Tensor(M * N), M, N], [ceiling(M / 16), ceiling(N / 16)],
    [{"M": 50, "N": 37}, {"M": 16, "N": 32}], {"T": 16},
)  # fmt: skip


@triton.jit
def scalars(x, scale, out, B: tl.constexpr):
    lanes = tl.arange(0, B)
    scaled = tl.load(x + tl.program_id(0) * B + lanes) * tl.load(scale)
    tl.store(out + tl.program_id(0) + lanes * 0, scaled, mask=lanes == 0)
    tl.store(out + tl.program_id(0), 1.0)


ZOO["scalars"] = Launched(scalars, [Tensor(16 * N), Tensor(1), Tensor(N)], [N], [{"N": 5}], {"B": 16})


@triton.jit
def same_address(x, out, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(out + lanes, tl.load(x + lanes // 8))


ZOO["same_address"] = Launched(same_address, [Tensor(8), Tensor(64)], [1], [{}], {"B": 64})


@triton.jit
def band(x, out, n, width, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    j = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    inside = (i - j < width) & (j - i < width) & (i < n) & (j < n)
    tl.store(out + i * n + j, tl.load(x + i * n + j, mask=inside), mask=inside)


ZOO["band"] = Launched(
    band, [Tensor(N * N), Tensor(N * N), N, W], [ceiling(N / 16), ceiling(N / 16)],
    [{"N": 50, "W": 5}, {"N": 32, "W": 20}, {"N": 20, "W": 1}], {"B": 16},
)  # fmt: skip


@triton.jit
def triangle(x, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    base = x + tl.program_id(0) * B * B
    tl.store(base + i * B + j, 1.0, mask=i >= j)


ZOO["triangle"] = Launched(triangle, [Tensor(256 * N)], [N], [{"N": 2}], {"B": 16})


@triton.jit
def flattened(x, out, rows, columns, R: tl.constexpr, C: tl.constexpr):
    flat = tl.arange(0, R * C)
    row, column = flat // C, flat % C
    inside = (row < rows) & (column < columns)
    values = tl.load(x + row * columns + column, mask=inside)
    square = tl.reshape(inside, (R, C))
    at = tl.reshape(row * columns + column, (R, C))
    tl.store(out + at, tl.reshape(values, (R, C)), mask=square)


ZOO["flattened"] = Launched(
    flattened, [Tensor(M * N), Tensor(M * N), M, N], [1], [{"M": 3, "N": 5}, {"M": 9, "N": 20}], {"R": 8, "C": 16}
)


@triton.jit
def joined(x, out, n, B: tl.constexpr):
    lanes = tl.arange(0, B)
    both = tl.join(lanes, lanes + n)
    tl.store(out + both, tl.load(x + both, mask=both < 2 * n), mask=both < 2 * n)
    left, right = tl.split(both)
    tl.store(out + right, 1.0, mask=right < n + 3)
    tl.store(out + left, 1.0, mask=left < n)


ZOO["joined"] = Launched(joined, [Tensor(2 * N + 16), Tensor(2 * N + 16), N], [1], [{"N": 5}, {"N": 40}], {"B": 16})


@triton.jit
def decoded(x, out, heads, n, B: tl.constexpr):
    """Batch and head from one program index, and a bound that depends on the head."""
    pid = tl.program_id(0)
    batch, head = pid // heads, pid % heads
    at = tl.arange(0, B)
    inside = at < tl.minimum(n, 4 * (head + 1))
    base = (batch * heads + head) * n
    tl.store(out + base + at, tl.load(x + base + at, mask=inside), mask=inside)


ZOO["decoded"] = Launched(
    decoded, [Tensor(M * K * N), Tensor(M * K * N), K, N], [M * K], [{"M": 2, "K": 3, "N": 10}, {"M": 1, "K": 5, "N": 40}],
    {"B": 32},
)  # fmt: skip


@triton.jit
def decoded_constant(x, n, HEADS: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    at = tl.arange(0, B)
    tl.store(x + pid * B + at, 1.0, mask=(at < pid % HEADS) & (at < n))
    tl.store(x + pid * B + at, 1.0, mask=at < pid // HEADS)


ZOO["decoded_constant"] = Launched(
    decoded_constant, [Tensor(16 * G), N], [G], [{"G": 11, "N": 2}, {"G": 8, "N": 9}], {"HEADS": 4, "B": 16}
)


@triton.jit
def either(x, n, m, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(x + at, 1.0, mask=(at < n) | (at >= m))
    tl.store(x + at, 1.0, mask=(at < n) ^ (at < m))
    tl.store(x + at, 1.0, mask=(at != n) & (at < 20))
    tl.store(x + at, 1.0, mask=~((at < n) & (at < m)))
    tl.store(x + at, 1.0, mask=tl.where(at < n, at < m, at > m))


ZOO["either"] = Launched(
    either, [Tensor(32), N, M], [1], [{"N": 5, "M": 9}, {"N": 9, "M": 5}, {"N": 50, "M": 3}, {"N": 7, "M": 7}], {"B": 32}
)


@triton.jit
def cube(x, a, b, c, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    i = tl.program_id(0) * A + tl.arange(0, A)[:, None, None]
    j = tl.program_id(1) * B + tl.arange(0, B)[None, :, None]
    k = tl.program_id(2) * C + tl.arange(0, C)[None, None, :]
    tl.store(x + (i * b + j) * c + k, 1.0, mask=(i < a) & (j < b) & (k < c))


ZOO["cube"] = Launched(
    cube, [Tensor(M * N * K), M, N, K], [ceiling(M / 2), ceiling(N / 4), ceiling(K / 8)],
    [{"M": 3, "N": 7, "K": 9}], {"A": 2, "B": 4, "C": 8},
)  # fmt: skip


@triton.jit
def widths(a, b, c, d, n, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(a + at, tl.load(b + at, mask=at < n) != 0, mask=at < n)
    tl.store(c + at, tl.load(d + at, mask=at < n).to(tl.float64), mask=at < n)


ZOO["widths"] = Launched(
    widths, [Tensor(N, torch.bool), Tensor(N, torch.int8), Tensor(N, torch.float64), Tensor(N, torch.bfloat16), N], [1],
    [{"N": 11}], {"B": 32},
)  # fmt: skip


@triton.jit
def negative(x, n, m, B: tl.constexpr):
    """Division of possibly negative integers rounds towards zero."""
    pid = tl.program_id(0)
    count = (pid * 5 - n) // m
    rest = (pid * 5 - n) % m
    at = tl.arange(0, B)
    tl.store(x + at, 1.0, mask=at < count + 10)
    tl.store(x + at, 1.0, mask=at < rest + 10)


ZOO["negative"] = Launched(negative, [Tensor(32), N, M], [6], [{"N": 11, "M": 3}, {"N": 14, "M": 4}], {"B": 32})


@triton.jit
def swizzled(x, m, n, T: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(m, T), tl.cdiv(n, T)
    i, j = tl.swizzle2d(pid // columns, pid % columns, rows, columns, GROUP)
    i = i * T + tl.arange(0, T)[:, None]
    j = j * T + tl.arange(0, T)[None, :]
    tl.store(x + i * n + j, 1.0, mask=(i < m) & (j < n))


ZOO["swizzled"] = Launched(
    swizzled, [Tensor(M * N), M, N], [ceiling(M / 8) * ceiling(N / 8)], [{"M": 30, "N": 20}, {"M": 8, "N": 50}],
    {"T": 8, "GROUP": 3},
)  # fmt: skip
