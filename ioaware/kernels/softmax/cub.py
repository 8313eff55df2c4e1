"""Compute softmax in the steps of a block-reduction library.

It stores e^(x - m) for the sum alone: 6 G accesses for G elements.

Per row: m = max x (reads G); t = e^(x - m) (reads G, writes G); l = sum t (reads G); y = e^(x - m) / l (reads G, writes G).
The last step computes the exponentials again, so storing t buys nothing: 4 G would do (`softmax_safe`).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.launching.launch import launching
from ioaware.kernels.softmax.rows import check_matrix, chunk_options, load_chunk, row_max, store_chunk


@triton.jit
def softmax_cub_kernel(X, T, Y, cols, CHUNK: tl.constexpr):
    """Compute one row. Grid (rows): T in HBM belongs to one program."""
    row = tl.program_id(0)
    m = row_max(X, row, cols, CHUNK)
    for start in range(0, cols, CHUNK):
        store_chunk(tl.exp(load_chunk(X, row, start, cols, 0.0, CHUNK) - m), T, row, start, cols, CHUNK)
    tl.debug_barrier()  # T is read by other threads than wrote it
    l = tl.full([], 0.0, tl.float32)
    for start in range(0, cols, CHUNK):
        l += tl.sum(load_chunk(T, row, start, cols, 0.0, CHUNK), 0)
    for start in range(0, cols, CHUNK):
        store_chunk(tl.exp(load_chunk(X, row, start, cols, 0.0, CHUNK) - m) / l, Y, row, start, cols, CHUNK)


def softmax_cub(x: torch.Tensor, *, block_n: int = 1024) -> torch.Tensor:
    """Compute softmax(x) by rows of a contiguous x [rows, cols].

    E^(x - m) passes through HBM, in x's dtype, for the sum.

    Chunks of block_n columns. Extra memory: a matrix like x. Raises UsageError for unsupported tensors.
    """
    rows, cols = check_matrix("softmax_cub", x)
    t, y = torch.empty_like(x), torch.empty_like(x)
    with launching("softmax_cub", x.device):
        softmax_cub_kernel[(rows,)](x, t, y, cols, **chunk_options(cols, block_n))
    return y
