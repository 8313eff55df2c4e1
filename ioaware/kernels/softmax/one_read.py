"""Softmax of a row that stays on chip: read once, written once.

2 G accesses for G elements, the least possible.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.launching.launch import launching
from ioaware.kernels.softmax.rows import check_matrix, chunk_options, load_chunk, store_chunk


@triton.jit
def softmax_one_read_kernel(X, Y, cols, CHUNK: tl.constexpr):
    """Compute one row of at most CHUNK columns. Grid (rows)."""
    row = tl.program_id(0)
    x = load_chunk(X, row, 0, cols, float("-inf"), CHUNK)  # [CHUNK]
    e = tl.exp(x - tl.max(x, 0))
    store_chunk(e / tl.sum(e, 0), Y, row, 0, cols, CHUNK)


def softmax_one_read(x: torch.Tensor) -> torch.Tensor:
    """Compute softmax(x) by rows, reading each once.

    x is contiguous [rows, cols], of at most ROW_ON_CHIP columns.

    Raises UsageError for unsupported tensors.
    """
    rows, cols = check_matrix("softmax_one_read", x, on_chip=True)
    y = torch.empty_like(x)
    with launching("softmax_one_read", x.device):
        softmax_one_read_kernel[(rows,)](x, y, cols, **chunk_options(cols, cols))
    return y
