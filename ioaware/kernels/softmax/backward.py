"""Compute softmax's gradient dX = Y (dY - rowsum(Y dY)).

A row is read in two passes (5 G accesses), or in one, on chip (3 G).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.launching.launch import launching
from ioaware.kernels.softmax.rows import check_matrix, chunk_options, load_chunk, store_chunk


@triton.jit
def softmax_backward_kernel(Y, dY, dX, cols, CHUNK: tl.constexpr):
    """Compute one row in two passes. Grid (rows)."""
    row = tl.program_id(0)
    delta = tl.full([], 0.0, tl.float32)
    for start in range(0, cols, CHUNK):
        y = load_chunk(Y, row, start, cols, 0.0, CHUNK)  # [CHUNK]
        delta += tl.sum(y * load_chunk(dY, row, start, cols, 0.0, CHUNK), 0)
    for start in range(0, cols, CHUNK):
        y = load_chunk(Y, row, start, cols, 0.0, CHUNK)  # [CHUNK]
        dy = load_chunk(dY, row, start, cols, 0.0, CHUNK)  # [CHUNK]
        store_chunk(y * (dy - delta), dX, row, start, cols, CHUNK)


@triton.jit
def softmax_backward_one_read_kernel(Y, dY, dX, cols, CHUNK: tl.constexpr):
    """Compute one row of at most CHUNK columns. Grid (rows)."""
    row = tl.program_id(0)
    y = load_chunk(Y, row, 0, cols, 0.0, CHUNK)  # [CHUNK]
    dy = load_chunk(dY, row, 0, cols, 0.0, CHUNK)  # [CHUNK]
    store_chunk(y * (dy - tl.sum(y * dy, 0)), dX, row, 0, cols, CHUNK)


def softmax_bwd(y: torch.Tensor, dy: torch.Tensor, *, block_n: int = 1024) -> torch.Tensor:
    """Compute dX from y = softmax(x) and dy, which are read twice.

    They are contiguous [rows, cols]; chunks have block_n columns.

    Raises UsageError for unsupported tensors.
    """
    rows, cols = check_matrix("softmax_bwd", y, dy)
    dx = torch.empty_like(y)
    with launching("softmax_bwd", y.device):
        softmax_backward_kernel[(rows,)](y, dy, dx, cols, **chunk_options(cols, block_n))
    return dx


def softmax_bwd_one_read(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    """Compute dX from y = softmax(x) and dy, which are read once.

    They are contiguous [rows, cols], of at most ROW_ON_CHIP columns.

    Raises UsageError for unsupported tensors.
    """
    rows, cols = check_matrix("softmax_bwd_one_read", y, dy, on_chip=True)
    dx = torch.empty_like(y)
    with launching("softmax_bwd_one_read", y.device):
        softmax_backward_one_read_kernel[(rows,)](y, dy, dx, cols, **chunk_options(cols, cols))
    return dx
