"""Compute softmax by five kernels, each of which reads and writes HBM.

An eager framework without a fused kernel does the same.

For X [rows, cols], G = rows cols, with the temporaries in X's dtype and the row statistics in float32:
    m = rowmax X           reads G         writes rows
    T = X - m              reads G + rows  writes G
    E = e^T                reads G         writes G
    l = rowsum E           reads G         writes rows
    Y = E / l              reads G + rows  writes G          in all 8 G + 4 rows
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.launching.launch import launching
from ioaware.kernels.softmax.rows import check_matrix, chunk_options, load_chunk, row_max, store_chunk


@triton.jit
def softmax_eager_max(X, M, cols, CHUNK: tl.constexpr):
    """Compute m = max x of one row. Grid (rows)."""
    row = tl.program_id(0)
    tl.store(M + row, row_max(X, row, cols, CHUNK))


@triton.jit
def softmax_eager_subtract(X, M, T, cols, CHUNK: tl.constexpr):
    """Compute t = x - m of one row. Grid (rows)."""
    row = tl.program_id(0)
    m = tl.load(M + row)
    for start in range(0, cols, CHUNK):
        store_chunk(load_chunk(X, row, start, cols, 0.0, CHUNK) - m, T, row, start, cols, CHUNK)


@triton.jit
def softmax_eager_exp(T, E, cols, CHUNK: tl.constexpr):
    """Compute e^t of one row. Grid (rows)."""
    row = tl.program_id(0)
    for start in range(0, cols, CHUNK):
        store_chunk(tl.exp(load_chunk(T, row, start, cols, 0.0, CHUNK)), E, row, start, cols, CHUNK)


@triton.jit
def softmax_eager_sum(E, L, cols, CHUNK: tl.constexpr):
    """Compute l = sum e of one row. Grid (rows)."""
    row = tl.program_id(0)
    l = tl.full([], 0.0, tl.float32)
    for start in range(0, cols, CHUNK):
        l += tl.sum(load_chunk(E, row, start, cols, 0.0, CHUNK), 0)
    tl.store(L + row, l)


@triton.jit
def softmax_eager_divide(E, L, Y, cols, CHUNK: tl.constexpr):
    """Compute y = e / l of one row. Grid (rows)."""
    row = tl.program_id(0)
    l = tl.load(L + row)
    for start in range(0, cols, CHUNK):
        store_chunk(load_chunk(E, row, start, cols, 0.0, CHUNK) / l, Y, row, start, cols, CHUNK)


def softmax_eager(x: torch.Tensor, *, block_n: int = 1024) -> torch.Tensor:
    """Compute softmax(x) by rows of a contiguous x [rows, cols], in five kernels.

    Chunks of block_n columns.

    Extra memory: two matrices like x and two float32 numbers per row. Raises UsageError for unsupported tensors.
    """
    rows, cols = check_matrix("softmax_eager", x)
    t, e, y = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    m, l = (torch.empty((rows,), dtype=torch.float32, device=x.device) for _ in range(2))
    options = chunk_options(cols, block_n)
    with launching("softmax_eager", x.device):
        softmax_eager_max[(rows,)](x, m, cols, **options)
        softmax_eager_subtract[(rows,)](x, m, t, cols, **options)
        softmax_eager_exp[(rows,)](t, e, cols, **options)
        softmax_eager_sum[(rows,)](e, l, cols, **options)
        softmax_eager_divide[(rows,)](e, l, y, cols, **options)
    return y
