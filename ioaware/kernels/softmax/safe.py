"""Safe softmax in three passes over a row: maximum, sum of exponentials, output.

4 G accesses for G elements.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.launching.launch import launching
from ioaware.kernels.softmax.rows import check_matrix, chunk_options, load_chunk, row_max, store_chunk


@triton.jit
def softmax_safe_kernel(X, Y, cols, CHUNK: tl.constexpr):
    """Compute one row. Grid (rows)."""
    row = tl.program_id(0)
    m = row_max(X, row, cols, CHUNK)
    l = tl.full([], 0.0, tl.float32)
    for start in range(0, cols, CHUNK):
        l += tl.sum(tl.exp(load_chunk(X, row, start, cols, float("-inf"), CHUNK) - m), 0)
    for start in range(0, cols, CHUNK):
        store_chunk(tl.exp(load_chunk(X, row, start, cols, 0.0, CHUNK) - m) / l, Y, row, start, cols, CHUNK)


def softmax_safe(x: torch.Tensor, *, block_n: int = 1024) -> torch.Tensor:
    """Compute softmax(x) by rows, reading x three times.

    x is contiguous [rows, cols]; chunks have block_n columns.

    Raises UsageError for unsupported tensors.
    """
    rows, cols = check_matrix("softmax_safe", x)
    y = torch.empty_like(x)
    with launching("softmax_safe", x.device):
        softmax_safe_kernel[(rows,)](x, y, cols, **chunk_options(cols, block_n))
    return y
