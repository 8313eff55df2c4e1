"""FlashAttention with a block mask: zero blocks are skipped.

Dao et al. 2022, arXiv 2205.14135, Algorithm 5: Algorithm 1, whose inner loop skips the row blocks i of column block j with
M_ij = 0. The mask is a band and the first columns, by block numbers, so that it needs no memory (sliding window and global
attention, Beltagy et al. 2020, arXiv 2004.05150): M_ij = 1 where |i - j| <= window or j < global_blocks.
K_j and V_j are loaded for empty columns too (line 6). With rho the rows of all nonzero blocks together, in elements: reads
2 N_k d + rho (2 d + 2), writes N d + 2 N + rho (d + 2). Proposition 4: Theta(N d + s N^2 d^2 / M), with s the share
of nonzero blocks.
A row with no nonzero block gives zeros: its softmax is over nothing.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.flash1 import flash1_init, flash1_step
from ioaware.kernels.attention.launching.launch import launching, shared_memory_bytes
from ioaware.kernels.attention.launching.on_chip_limits import flash1_options
from ioaware.kernels.attention.tiles import load_block


@triton.jit
def block_sparse_kernel(
    Q, K, V, O, L, M,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_on, stride_od,
    seq_len, kv_len, window, global_blocks, scale,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute one head. Grid (heads, batch)."""
    head, batch = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    Q += batch * stride_qb + head * stride_qh
    K += batch * stride_kb + head * stride_kh
    V += batch * stride_vb + head * stride_vh
    O += batch * stride_ob + head * stride_oh
    L += (batch * tl.num_programs(0) + head) * seq_len
    M += (batch * tl.num_programs(0) + head) * seq_len
    row_blocks = tl.cdiv(seq_len, BLOCK_M)
    for j in range(tl.cdiv(kv_len, BLOCK_N)):
        col = j * BLOCK_N
        k = load_block(K, col, 0, kv_len, HEAD_DIM, stride_kn, stride_kd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        v = load_block(V, col, 0, kv_len, HEAD_DIM, stride_vn, stride_vd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        first = tl.where(j < global_blocks, 0, tl.maximum(j - window, 0))
        end = tl.where(j < global_blocks, row_blocks, tl.minimum(j + window + 1, row_blocks))
        for i in range(first, end):
            flash1_step(
                Q, O, L, M, k, v, i * BLOCK_M, col, stride_qn, stride_qd, stride_on, stride_od, seq_len, kv_len, scale,
                False, HEAD_DIM, BLOCK_M, BLOCK_N,
            )  # fmt: skip
        # The next j reads O_i, l_i, m_i that other threads of this program have written.
        tl.debug_barrier()


def block_sparse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    block_m: int = 64,
    block_n: int = 64,
    window: int = 1,
    global_blocks: int = 1,
) -> torch.Tensor:
    """Compute attention over a band of 2 window + 1 blocks and the first global_blocks column blocks.

    q [batch, heads, seq_len, head_dim], k and v [batch, heads, kv_len, head_dim]: float16, bfloat16 or float32, any strides.
    Returns o like q, rounded to its dtype at every step. Extra memory: l and m, 2 N elements of float32 per head.
    Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    shape = check_attention("block_sparse", q, k, v, scale=scale, block_m=block_m, block_n=block_n)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    l, m = (torch.empty(q.shape[:3], dtype=torch.float32, device=q.device) for _ in range(2))
    with launching("block_sparse", q.device):
        flash1_init[(triton.cdiv(shape.seq_len, block_m), shape.heads, shape.batch)](
            o, l, m, *o.stride(), shape.seq_len, HEAD_DIM=shape.head_dim, BLOCK_M=block_m
        )
        block_sparse_kernel[(shape.heads, shape.batch)](
            q, k, v, o, l, m, *q.stride(), *k.stride(), *v.stride(), *o.stride(),
            shape.seq_len, shape.kv_len, window, global_blocks, shape.scale,
            HEAD_DIM=shape.head_dim, BLOCK_M=block_m, BLOCK_N=block_n,
            **flash1_options(block_m, block_n, shape.head_dim, q.element_size(), shared_memory_bytes(q.device)),
        )  # fmt: skip
    return o
