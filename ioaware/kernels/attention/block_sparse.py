"""FlashAttention with a block mask: zero blocks are skipped.

Dao et al. 2022, arXiv 2205.14135, Algorithm 5. It is Algorithm 1 with an inner loop that skips row block i of column block j
if M_ij = 0. The mask is a band and the first columns, by block numbers, so it needs no memory. It is sliding window and
global attention (Beltagy et al. 2020, arXiv 2004.05150): M_ij = 1 where |i - j| <= window or j < global_blocks. K_j and V_j
are loaded for empty columns too (line 6). With rho the rows of all nonzero blocks together, in elements: reads 2 N_k d + rho
(2 d + 2), writes N d + 2 N + rho (d + 2). Proposition 4: Theta(N d + s N^2 d^2 / M), with s the share of nonzero blocks.
Causal masks within the nonzero blocks too, and skips those that see no key. A row without a visible key gives zeros: its
softmax has no terms.
"""

from __future__ import annotations

import torch
import triton

from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.flash1 import flash1_init, flash1_kernel
from ioaware.kernels.attention.launching.launch import launching, shared_memory_bytes
from ioaware.kernels.attention.launching.on_chip_limits import flash1_options


def block_sparse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_m: int = 64,
    block_n: int = 64,
    window: int = 1,
    global_blocks: int = 1,
) -> torch.Tensor:
    """Compute attention over a band of blocks and the first column blocks.

    The band is 2 window + 1 blocks wide; the first global_blocks column blocks are seen by every row.

    q [batch, heads, seq_len, head_dim], k and v [batch, heads, kv_len, head_dim]: float16, bfloat16 or float32, any strides.
    causal aligns the last query with the last key. Returns o like q, rounded to its dtype at every step.
    Extra memory: l and m, 2 N elements of float32 per head.
    Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    shape = check_attention("block_sparse", q, k, v, scale=scale, block_m=block_m, block_n=block_n)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    l, m = (torch.empty(q.shape[:3], dtype=torch.float32, device=q.device) for _ in range(2))
    with launching("block_sparse", q.device):
        flash1_init[(triton.cdiv(shape.seq_len, block_m), shape.heads, shape.batch)](
            o, l, m, *o.stride(), shape.seq_len, HEAD_DIM=shape.head_dim, BLOCK_M=block_m
        )
        flash1_kernel[(shape.heads, shape.batch)](
            q, k, v, o, l, m, *q.stride(), *k.stride(), *v.stride(), *o.stride(), shape.seq_len, shape.kv_len, shape.scale,
            CAUSAL=causal, HEAD_DIM=shape.head_dim, BLOCK_M=block_m, BLOCK_N=block_n, WINDOW=window, GLOBAL=global_blocks,
            **flash1_options(block_m, block_n, shape.head_dim, q.element_size(), shared_memory_bytes(q.device)),
        )  # fmt: skip
    return o
