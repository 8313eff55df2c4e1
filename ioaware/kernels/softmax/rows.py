"""Load, store and reduce rows of a matrix in chunks, for the softmax kernels."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from ioaware.errors import UsageError
from ioaware.kernels.attention.launching.on_chip_limits import ROW_ON_CHIP, padded

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def load_chunk(X, row, start, cols, other: tl.constexpr, CHUNK: tl.constexpr):
    """Load columns [start, start + CHUNK) of a row in float32.

    The value is `other` beyond the last.
    """
    at = start + tl.arange(0, CHUNK)
    return tl.load(X + row.to(tl.int64) * cols + at, mask=at < cols, other=other).to(tl.float32)


@triton.jit
def store_chunk(y, Y, row, start, cols, CHUNK: tl.constexpr):
    """Store columns [start, start + CHUNK) of a row in Y's dtype.

    Nothing is stored beyond the last.
    """
    at = start + tl.arange(0, CHUNK)
    tl.store(Y + row.to(tl.int64) * cols + at, y.to(Y.dtype.element_ty), mask=at < cols)


@triton.jit
def row_max(X, row, cols, CHUNK: tl.constexpr):
    """Return the maximum of a row; reads it once."""
    m = tl.full([], float("-inf"), tl.float32)
    for start in range(0, cols, CHUNK):
        m = tl.maximum(m, tl.max(load_chunk(X, row, start, cols, float("-inf"), CHUNK), 0))
    return m


@triton.jit
def row_max_and_sum(X, row, cols, CHUNK: tl.constexpr):
    """Return m = max x and l = sum e^(x - m) of a row.

    Reads it once (Milakov and Gimelshein 2018, arXiv 1805.02867).
    """
    m, l = tl.full([], float("-inf"), tl.float32), tl.full([], 0.0, tl.float32)
    for start in range(0, cols, CHUNK):
        x = load_chunk(X, row, start, cols, float("-inf"), CHUNK)  # [CHUNK]
        m_new = tl.maximum(m, tl.max(x, 0))
        l = l * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), 0)
        m = m_new
    return m, l


def check_matrix(kernel: str, *tensors: torch.Tensor, on_chip: bool = False) -> tuple[int, int]:
    """Return rows and columns of contiguous matrices of one shape and dtype.

    Raises UsageError for others.

    on_chip: the kernel keeps a row in registers, which limits the columns.
    """
    x = tensors[0]
    if x.dim() != 2 or any(one.shape != x.shape or one.dtype != x.dtype for one in tensors) or x.dtype not in DTYPES:
        raise UsageError(
            f"{kernel}: it takes matrices [rows, cols] of one shape and dtype, float16, bfloat16 or float32",
            "Reshape or convert the tensors.",
        )
    if not all(one.is_contiguous() for one in tensors):
        raise UsageError(f"{kernel}: it takes rows that follow one another in memory", "Call .contiguous() first.")
    rows, cols = x.shape
    if on_chip and cols > ROW_ON_CHIP:
        raise UsageError(f"{kernel}: a row of {cols} does not fit on chip, {ROW_ON_CHIP} do", "Take softmax_online.")
    return rows, cols


def chunk_options(cols: int, block: int) -> dict[str, Any]:
    """Return the chunk of a row and its warps.

    It is at most `block` columns, rounded up to a power of two.
    """
    chunk = min(padded(cols), padded(block))
    return {"CHUNK": chunk, "num_warps": min(16, max(1, chunk // 512))}
