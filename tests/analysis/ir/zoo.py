"""Small kernels, one per construct: what the engine must understand, each with sizes at which it is also run and counted."""

# ruff: noqa: PIE808, SIM108 - kernels are written as their users write them
from __future__ import annotations

import torch
import triton
import triton.language as tl
from ir.compiled import BLOCK_POINTERS, Described, Launched, Tensor, symbols
from sympy import Max, ceiling

N, M, K, W, S, G = symbols("N M K W S G")
F16, I32 = torch.float16, torch.int32
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
def matmul(
    a, b, c, m, n, k, stride_am, stride_bk,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Grouped order, operands that wrap around, pointers that advance, and what is left of k as the mask."""
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    group = pid // (GROUP * tiles_n)
    first = group * GROUP
    size = min(tiles_m - first, GROUP)
    i = first + (pid % (GROUP * tiles_n)) % size
    j = (pid % (GROUP * tiles_n)) // size
    rows = (i * BM + tl.arange(0, BM)) % m
    columns = (j * BN + tl.arange(0, BN)) % n
    inner = tl.arange(0, BK)
    a_ptrs = a + rows[:, None] * stride_am + inner[None, :]
    b_ptrs = b + inner[:, None] * stride_bk + columns[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, BK)):
        left = tl.load(a_ptrs, mask=inner[None, :] < k - step * BK, other=0.0)
        right = tl.load(b_ptrs, mask=inner[:, None] < k - step * BK, other=0.0)
        acc = tl.dot(left, right, acc)
        a_ptrs += BK
        b_ptrs += BK * stride_bk
    row, column = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN)
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c + row[:, None] * n + column[None, :], acc.to(tl.float16), mask=inside)


ZOO["matmul"] = Launched(
    matmul, [Tensor(M * K, F16), Tensor(K * N, F16), Tensor(M * N, F16), M, N, K, K, N],
    [ceiling(M / 16) * ceiling(N / 16)],
    [{"M": 50, "N": 24, "K": 40}, {"M": 16, "N": 33, "K": 32}], {"BM": 16, "BN": 16, "BK": 16, "GROUP": 2},
)  # fmt: skip


@triton.jit
def triangular(x, out, n, B: tl.constexpr, C: tl.constexpr):
    """A causal loop: the later the program, the more it reads."""
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
    """A persistent loop over ragged tiles whose coordinates are a quotient and a remainder."""
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
def branch_on_program(x, out, n, B: tl.constexpr):
    pid = tl.program_id(0)
    lanes = tl.arange(0, B)
    if pid < n:
        tl.store(out + pid * B + lanes, tl.load(x + pid * B + lanes))
    else:
        tl.store(out + pid * B + lanes, 0.0)
    if pid % 3 == 1:
        tl.store(out + pid * B + lanes, 1.0, mask=lanes < 5)


ZOO["branch_on_program"] = Launched(
    branch_on_program, [Tensor(8 * Max(N, G)), Tensor(8 * G), N], [G], [{"N": 3, "G": 7}, {"N": 9, "G": 4}], {"B": 8}
)


@triton.jit
def branch_on_argument(x, n, m, B: tl.constexpr):
    lanes = tl.arange(0, B)
    if n > m:
        tl.store(x + lanes, 1.0)
    elif n == m:
        tl.store(x + lanes, 2.0, mask=lanes < 3)
    else:
        for i in range(n):
            tl.store(x + i, 1.0)


ZOO["branch_on_argument"] = Launched(
    branch_on_argument, [Tensor(8 + N), N, M], [2], [{"N": 3, "M": 7}, {"N": 9, "M": 4}, {"N": 4, "M": 4}], {"B": 8}
)


@triton.jit
def early_return(x, out, n, m, B: tl.constexpr):
    pid = tl.program_id(0)
    if pid >= n:
        return
    at = out + pid * B + tl.arange(0, B)
    tl.store(at, tl.load(x + pid * B + tl.arange(0, B)))
    if pid >= m:
        return
    tl.store(at, 1.0)


ZOO["early_return"] = Launched(
    early_return, [Tensor(8 * G), Tensor(8 * G), N, M], [G], [{"N": 3, "M": 2, "G": 7}, {"N": 5, "M": 9, "G": 4}], {"B": 8}
)


@triton.jit
def chosen_pointer(x, y, out, n, B: tl.constexpr):
    pid = tl.program_id(0)
    if pid < n:
        source = x
    else:
        source = y
    lanes = tl.arange(0, B)
    shift = tl.where(lanes < 4, 0, n)
    tl.store(out + pid * B + lanes, tl.load(source + lanes + shift))


ZOO["chosen_pointer"] = Launched(
    chosen_pointer, [Tensor(8 + N), Tensor(8 + N), Tensor(8 * G), N], [G], [{"N": 2, "G": 5}], {"B": 8}
)


@triton.jit
def atomics(bins, top, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(bins + at, 1, mask=at < n)
    tl.atomic_max(top, tl.program_id(0))
    tl.atomic_xchg(top, 3)
    tl.atomic_cas(top, 0, 1)
    tl.store(out + at, 1.0, mask=at < n)


ZOO["atomics"] = Launched(atomics, [Tensor(N, I32), Tensor(1, I32), Tensor(N), N], [ceiling(N / 32)], [{"N": 70}], {"B": 32})


@triton.jit
def unrolled(x, out, n, B: tl.constexpr, TIMES: tl.constexpr):
    lanes = tl.arange(0, B)
    for i in tl.static_range(TIMES):
        at = (tl.program_id(0) * TIMES + i) * B + lanes
        tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


ZOO["unrolled"] = Launched(
    unrolled, [Tensor(N), Tensor(N), N], [ceiling(N / 48)], [{"N": 100}, {"N": 48}], {"B": 16, "TIMES": 3}
)


@triton.jit(noinline=True)
def _called(x, at, n):
    """A function that stays one in the IR."""
    first = tl.load(x + at)
    if at < n:
        first += tl.load(x + n)
    return at + 1, first


@triton.jit
def calls(x, out, n, B: tl.constexpr):
    pid = tl.program_id(0)
    following, first = _called(x, pid, n)
    _, second = _called(x, following, n)
    at = pid * B + tl.arange(0, B)
    tl.store(out + at, first + second, mask=at < n * following)


ZOO["calls"] = Launched(calls, [Tensor(N + 9), Tensor(128), N], [5], [{"N": 3}, {"N": 8}], {"B": 16})


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
    """Pointers carried through two loops, and a distance that grows."""
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
def lagging(x, n, B: tl.constexpr):
    """A mask from the iteration before."""
    lanes = tl.arange(0, B)
    before = 3
    for i in range(n):
        tl.store(x + i * B + lanes, 1.0, mask=lanes < before)
        before = i


ZOO["lagging"] = Launched(lagging, [Tensor(16 * N), N], [1], [{"N": 5}, {"N": 1}], {"B": 16})


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
    """Batch and head out of one program index, and a bound that depends on the head."""
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
def layer_norm(x, w, out, rows, columns, B: tl.constexpr):
    """Three passes over a row."""
    row = x + tl.program_id(0) * columns
    mean = tl.zeros([B], tl.float32)
    for start in range(0, columns, B):
        at = start + tl.arange(0, B)
        mean += tl.load(row + at, mask=at < columns, other=0.0)
    centre = tl.sum(mean) / columns
    spread = tl.zeros([B], tl.float32)
    for start in range(0, columns, B):
        at = start + tl.arange(0, B)
        off = tl.where(at < columns, tl.load(row + at, mask=at < columns, other=0.0) - centre, 0.0)
        spread += off * off
    scale = 1 / tl.sqrt(tl.sum(spread) / columns + 1e-5)
    for start in range(0, columns, B):
        at = start + tl.arange(0, B)
        value = (tl.load(row + at, mask=at < columns) - centre) * scale * tl.load(w + at, mask=at < columns)
        tl.store(out + tl.program_id(0) * columns + at, value, mask=at < columns)


ZOO["layer_norm"] = Launched(
    layer_norm, [Tensor(M * N), Tensor(N), Tensor(M * N), M, N], [M], [{"M": 3, "N": 40}, {"M": 2, "N": 16}], {"B": 16}
)


@triton.jit
def dropout(x, out, n, p, seed, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=at < n), 0.0), mask=at < n)


ZOO["dropout"] = Launched(dropout, [Tensor(N), Tensor(N), N, 0.5, 7], [ceiling(N / 16)], [{"N": 40}], {"B": 16})


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
    """Divisions of what may be negative round towards zero."""
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
def on_chip(x, out, B: tl.constexpr):
    at = tl.arange(0, B)
    values = tl.load(x + at)
    tl.store(out + at, tl.sort(values) + tl.cumsum(values) + tl.flip(values, 0))
    tl.store(out + tl.arange(0, 4), tl.histogram(at % 4, 4).to(tl.float32))


ZOO["on_chip"] = Launched(on_chip, [Tensor(16), Tensor(16)], [2], [{}], {"B": 16})


@triton.jit
def convolution(x, w, out, n, taps, B: tl.constexpr):
    """Windows that overlap and reach over both ends."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for t in range(taps):
        source = at + t - taps // 2
        total += tl.load(x + source, mask=(source >= 0) & (source < n), other=0.0) * tl.load(w + t)
    tl.store(out + at, total, mask=at < n)


ZOO["convolution"] = Launched(
    convolution, [Tensor(N), Tensor(K), Tensor(N), N, K], [ceiling(N / 16)], [{"N": 40, "K": 5}, {"N": 9, "K": 30}], {"B": 16}
)


@triton.jit
def batched_dot(a, c):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    batch = tl.arange(0, 4)[:, None, None] * 256
    values = tl.load(a + batch + (i * 16 + j)[None, :, :])
    tl.store(c + batch + (i * 16 + j)[None, :, :], tl.dot(values, values))


ZOO["batched_dot"] = Launched(batched_dot, [Tensor(1024), Tensor(1024)], [2], [{}])


@triton.jit
def descriptors(x, out, rows, columns, T: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[rows, columns], strides=[columns, 1], block_shape=[T, T])
    target = tl.make_tensor_descriptor(out, shape=[rows, columns], strides=[columns, 1], block_shape=[T, T])
    for start in range(0, columns, T):
        values = source.load([tl.program_id(0) * T, start])
        target.store([tl.program_id(0) * T, start], values)
        target.atomic_add([tl.program_id(0) * T, start], values)


ZOO["descriptors"] = Launched(
    descriptors, [Tensor(M * N), Tensor(M * N), M, N], [ceiling(M / 16)], [{"M": 40, "N": 12}, {"M": 16, "N": 36}], {"T": 16}
)


@triton.jit
def host_descriptors(source, target, indices, ROWS: tl.constexpr):
    rows = tl.load(indices + tl.arange(0, ROWS))
    target.scatter(source.gather(rows, 0), rows, 0)


ZOO["host_descriptors"] = Launched(
    host_descriptors,
    [Described(64, 16, (1, 16)), Described(64, 16, (1, 16)), Tensor(8, I32, lambda n: torch.arange(0, 8 * n, 8))],
    [1], [{}], {"ROWS": 8},
)  # fmt: skip


@triton.jit
def gather(table, index, out, width, B: tl.constexpr):
    """Rows that memory names: which addresses is unknown, how many lanes is not."""
    row = tl.load(index + tl.program_id(0))
    lanes = tl.arange(0, B)
    values = tl.load(table + row * width + lanes, mask=lanes < width)
    tl.store(out + tl.program_id(0) * width + lanes, values, mask=lanes < width)


ZOO["gather"] = Launched(
    gather, [Tensor(20 * N), Tensor(G, I32), Tensor(G * N), N], [G], [{"N": 10, "G": 7}, {"N": 30, "G": 2}], {"B": 16}
)

if BLOCK_POINTERS:

    @triton.jit
    def block_pointers(x, out, rows, columns, T: tl.constexpr):
        source = tl.make_block_ptr(x, (rows, columns), (columns, 1), (0, 0), (T, T), (1, 0))
        target = tl.make_block_ptr(out, (rows, columns), (columns, 1), (0, 0), (T, T), (1, 0))
        for _ in range(0, rows, T):
            tl.store(target, tl.load(source, boundary_check=(0, 1), padding_option="zero"), boundary_check=(0, 1))
            source = tl.advance(source, (T, 0))
            target = tl.advance(target, (T, 0))

    ZOO["block_pointers"] = Launched(
        block_pointers, [Tensor(M * N), Tensor(M * N), M, N], [1], [{"M": 50, "N": 13}, {"M": 16, "N": 16}], {"T": 16}
    )
