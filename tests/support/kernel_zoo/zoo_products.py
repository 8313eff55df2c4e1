"""Matrix products: ragged, batched, and with scales."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    columns = tl.program_id(1) * N + tl.arange(0, N)[None, :]
    accumulator = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        a = tl.load(a_ptr + rows * k + inner[None, :], mask=(rows < m) & (inner[None, :] < k), other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + columns, mask=(inner[:, None] < k) & (columns < n), other=0.0)
        accumulator = tl.dot(a, b, accumulator)
    tl.store(c_ptr + rows * n + columns, accumulator.to(c_ptr.dtype.element_ty), mask=(rows < m) & (columns < n))


def matmul(m: int = 40, n: int = 24, k: int = 50, dtype: torch.dtype = torch.float16):
    from ioaware.case import Work

    a, b = torch.randn(m, k, device="cuda", dtype=dtype), torch.randn(k, n, device="cuda", dtype=dtype)

    def run():
        c = torch.empty(m, n, device="cuda", dtype=dtype)
        matmul_kernel[(triton.cdiv(m, 16), triton.cdiv(n, 16))](a, b, c, m, n, k, M=16, N=16, K=32)
        return c

    return Work(
        run, inputs=(a, b), reference=lambda: a.double() @ b.double(), tolerance=1e-2 if dtype is torch.bfloat16 else 2e-3
    )


@triton.jit
def batched_dot_kernel(a_ptr, c_ptr):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    batch = tl.arange(0, 4)[:, None, None] * 256
    a = tl.load(a_ptr + batch + (i * 16 + j)[None, :, :])
    tl.store(c_ptr + batch + (i * 16 + j)[None, :, :], tl.dot(a, a))


def batched_dot():
    a, c = torch.randn(4, 16, 16, device="cuda"), torch.empty(4, 16, 16, device="cuda")
    return lambda: (batched_dot_kernel[(1,)](a, c), c)[1]


@triton.jit
def scaled_dot_kernel(a_ptr, b_ptr, scale_ptr, c_ptr, KIND: tl.constexpr, PACKED: tl.constexpr):
    """C [32, 32] = A [32, 64] B [64, 32] with a scale for each 32 elements of K.

    PACKED elements share a byte along K.
    """
    rows, columns = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    inner = tl.arange(0, 64 // PACKED)
    a = tl.load(a_ptr + rows * (64 // PACKED) + inner[None, :])
    b = tl.load(b_ptr + inner[:, None] * 32 + columns)
    scale = tl.load(scale_ptr + rows * 2 + tl.arange(0, 2)[None, :])
    tl.store(c_ptr + rows * 32 + columns, tl.dot_scaled(a, scale, KIND, b, scale, KIND))


def scaled_dot(packed: int = 2):
    kind, dtype = ("e2m1", torch.uint8) if packed == 2 else ("e5m2", torch.float8_e5m2)
    a, b = (torch.zeros(32 * 64 // packed, device="cuda", dtype=torch.uint8).view(dtype) for _ in range(2))
    scale = torch.full((64,), 127, device="cuda", dtype=torch.uint8)
    c = torch.empty(32, 32, device="cuda")
    return lambda: (scaled_dot_kernel[(1,)](a, b, scale, c, KIND=kind, PACKED=packed), c)[1]
