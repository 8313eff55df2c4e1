"""Online softmax: maximum and sum of exponentials in one pass, output in a second.

3 G accesses for G elements.

Milakov and Gimelshein 2018, arXiv 1805.02867, Algorithm 3: with a running maximum m, l = l e^(m - m_new) + e^(x - m_new).
The first pass alone is the log-sum-exp, m + log l: G reads and one write per row.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.launching.launch import launching
from ioaware.kernels.softmax.rows import check_matrix, chunk_options, load_chunk, row_max_and_sum, store_chunk


@triton.jit
def softmax_online_kernel(X, Y, cols, CHUNK: tl.constexpr):
    """Compute one row. Grid (rows)."""
    row = tl.program_id(0)
    m, l = row_max_and_sum(X, row, cols, CHUNK)
    for start in range(0, cols, CHUNK):
        store_chunk(tl.exp(load_chunk(X, row, start, cols, 0.0, CHUNK) - m) / l, Y, row, start, cols, CHUNK)


@triton.jit
def softmax_lse_kernel(X, Lse, cols, CHUNK: tl.constexpr):
    """Compute the log-sum-exp of one row. Grid (rows)."""
    row = tl.program_id(0)
    m, l = row_max_and_sum(X, row, cols, CHUNK)
    tl.store(Lse + row, m + tl.log(l))


def softmax_online(x: torch.Tensor, *, block_n: int = 1024) -> torch.Tensor:
    """Compute softmax(x) by rows of a contiguous x [rows, cols], which is read twice.

    Chunks of block_n columns.

    Raises UsageError for unsupported tensors.
    """
    rows, cols = check_matrix("softmax_online", x)
    y = torch.empty_like(x)
    with launching("softmax_online", x.device):
        softmax_online_kernel[(rows,)](x, y, cols, **chunk_options(cols, block_n))
    return y


def softmax_lse(x: torch.Tensor, *, block_n: int = 1024) -> torch.Tensor:
    """Compute log sum e^x [rows] in float32 of a contiguous x [rows, cols].

    Chunks of block_n columns.

    Raises UsageError for unsupported tensors.
    """
    rows, cols = check_matrix("softmax_lse", x)
    lse = torch.empty((rows,), dtype=torch.float32, device=x.device)
    with launching("softmax_lse", x.device):
        softmax_lse_kernel[(rows,)](x, lse, cols, **chunk_options(cols, block_n))
    return lse
