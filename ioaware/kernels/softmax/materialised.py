"""Compute softmax in one kernel that keeps e^(x - m) in HBM between passes.

It makes 6 G accesses for G elements.

Per row: m = max x (reads G); t = e^(x - m) (reads G, writes G); l = sum t (reads G); y = t / l (reads G, writes G).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.launching.launch import launching
from ioaware.kernels.softmax.rows import check_matrix, chunk_options, load_chunk, row_max, store_chunk


@triton.jit
def softmax_materialised_kernel(X, T, Y, cols, CHUNK: tl.constexpr):
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
        store_chunk(load_chunk(T, row, start, cols, 0.0, CHUNK) / l, Y, row, start, cols, CHUNK)


def softmax_materialised(x: torch.Tensor, *, block_n: int = 1024) -> torch.Tensor:
    """Compute softmax(x) by rows of a contiguous x [rows, cols].

    E^(x - m) is kept in HBM, in x's dtype.

    Chunks of block_n columns. Extra memory: a matrix like x. Raises UsageError for unsupported tensors.
    """
    rows, cols = check_matrix("softmax_materialised", x)
    t, y = torch.empty_like(x), torch.empty_like(x)
    with launching("softmax_materialised", x.device):
        softmax_materialised_kernel[(rows,)](x, t, y, cols, **chunk_options(cols, block_n))
    return y
