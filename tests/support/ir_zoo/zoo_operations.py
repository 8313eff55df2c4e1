"""Kernels with other operations.

They have branches, calls, atomics, descriptors, gathers and algorithms.
"""

# ruff: noqa: PIE808, SIM108 - kernels are written as in user code
from __future__ import annotations

import torch
import triton
import triton.language as tl
from sympy import Max, ceiling

from tests.support.ir_zoo.compiled import BLOCK_POINTERS, Described, Launched, Tensor, symbols

N, M, K, G = symbols("N M K G")
F16, I32 = torch.float16, torch.int32
ZOO: dict[str, Launched] = {}


@triton.jit
def matmul(
    a, b, c, m, n, k, stride_am, stride_bk,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Grouped order, operands that wrap around, and advancing pointers.

    There is a mask for the remainder of k.
    """
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


@triton.jit(noinline=True)
def _called(x, at, n):
    """A function that is not inlined."""
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
def atomics(bins, top, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(bins + at, 1, mask=at < n)
    tl.atomic_max(top, tl.program_id(0))
    tl.atomic_xchg(top, 3)
    tl.atomic_cas(top, 0, 1)
    tl.store(out + at, 1.0, mask=at < n)


ZOO["atomics"] = Launched(atomics, [Tensor(N, I32), Tensor(1, I32), Tensor(N), N], [ceiling(N / 32)], [{"N": 70}], {"B": 32})


@triton.jit
def layer_norm(x, w, out, rows, columns, B: tl.constexpr):
    """Three passes over each row."""
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
def on_chip(x, out, B: tl.constexpr):
    at = tl.arange(0, B)
    values = tl.load(x + at)
    tl.store(out + at, tl.sort(values) + tl.cumsum(values) + tl.flip(values, 0))
    tl.store(out + tl.arange(0, 4), tl.histogram(at % 4, 4).to(tl.float32))


ZOO["on_chip"] = Launched(on_chip, [Tensor(16), Tensor(16)], [2], [{}], {"B": 16})


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
    """Rows given by loaded indices.

    The addresses are unknown, the number of lanes is known.
    """
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
