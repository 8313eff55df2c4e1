"""Compute FlashAttention-2 with the log-sum-exp carried instead of the row sum.

O is rescaled once after the loop.

The Triton implementation of FlashAttention that preceded its paper's second version, per (batch, head) and row block i:
    O_i = 0, L_i = -inf, m_i = -inf on chip;  load Q_i
    for each column block j:    load K_j, V_j;  S = Q_i K_j^T
        m_new = max(L_i, rowmax S);  P = exp(S - m_new)            L_i is at least the maximum so far and replaces it
        O_i = e^(m_i - m_new) O_i + P V_j;  L_i = m_new + log(e^(L_i - m_new) + rowsum P);  m_i = m_new
    write O_i e^(m_i - L_i) and L_i
Reads N d + 2 N_k d ceil(N / B_r) elements and writes N d + N, as FlashAttention-2 does; it takes a logarithm per row and block.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.masks import last_column_block, visible_pairs
from ioaware.kernels.attention.blocks.tiles import load_block, store_block, tile_side
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.launching.launch import launching, shared_memory_bytes
from ioaware.kernels.attention.launching.on_chip_limits import flash2_options


@triton.jit
def flash_lse_kernel(
    Q, K, V, O, Lse,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_on, stride_od,
    seq_len, kv_len, scale,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute one row block of one head. Grid (row blocks, heads, batch)."""
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    Q += batch * stride_qb + head * stride_qh
    K += batch * stride_kb + head * stride_kh
    V += batch * stride_vb + head * stride_vh
    O += batch * stride_ob + head * stride_oh
    Lse += (batch * tl.num_programs(1) + head) * seq_len
    row = tl.program_id(0) * BLOCK_M
    q = load_block(Q, row, 0, seq_len, HEAD_DIM, stride_qn, stride_qd, BLOCK_M, HEAD_DIM)  # [B_r, d]
    o = tl.zeros([tile_side(BLOCK_M), tile_side(HEAD_DIM)], tl.float32)  # [B_r, d]
    lse = tl.full([tile_side(BLOCK_M)], float("-inf"), tl.float32)  # [B_r]
    m = tl.full([tile_side(BLOCK_M)], float("-inf"), tl.float32)  # [B_r]
    for j in range(last_column_block(row, seq_len, kv_len, CAUSAL, BLOCK_M, BLOCK_N)):
        col = j * BLOCK_N
        k = load_block(K, col, 0, kv_len, HEAD_DIM, stride_kn, stride_kd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        v = load_block(V, col, 0, kv_len, HEAD_DIM, stride_vn, stride_vd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        s = tl.dot(q, k.T, input_precision="ieee") * scale  # [B_r, B_c]
        s = tl.where(visible_pairs(row, col, seq_len, kv_len, CAUSAL, BLOCK_M, BLOCK_N), s, float("-inf"))
        m_new = tl.maximum(lse, tl.max(s, 1))  # [B_r]
        shift = tl.where(m_new == float("-inf"), 0.0, m_new)  # a row without a visible key: -inf - (-inf) is NaN
        p = tl.exp(s - shift[:, None])  # [B_r, B_c]
        o = tl.dot(p.to(v.dtype), v, o * tl.exp(m - shift)[:, None], input_precision="ieee")
        lse = shift + tl.log(tl.exp(lse - shift) + tl.sum(p, 1))
        m = m_new
    o_scale = tl.where(lse == float("-inf"), 0.0, tl.exp(m - lse))  # 1 over the denominator of softmax
    store_block(o * o_scale[:, None], O, row, 0, seq_len, HEAD_DIM, stride_on, stride_od, BLOCK_M, HEAD_DIM)
    lanes = tl.arange(0, tile_side(BLOCK_M))
    tl.store(Lse + row + lanes, lse, mask=(lanes < BLOCK_M) & (row + lanes < seq_len))


def flash_lse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute softmax(scale Q K^T) V and its log-sum-exp.

    The log-sum-exp is carried through the loop.

    q [batch, heads, seq_len, head_dim], k and v [batch, heads, kv_len, head_dim]: float16, bfloat16 or float32, any strides.
    causal aligns the last query with the last key; scale is 1/sqrt(head_dim) unless given; B_r = block_m, B_c = block_n.
    Returns o like q and lse [batch, heads, seq_len] in float32; a row without a visible key gives zeros and -inf.
    Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    shape = check_attention("flash_lse", q, k, v, scale=scale, block_m=block_m, block_n=block_n)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    with launching("flash_lse", q.device):
        flash_lse_kernel[(triton.cdiv(shape.seq_len, block_m), shape.heads, shape.batch)](
            q, k, v, o, lse, *q.stride(), *k.stride(), *v.stride(), *o.stride(),
            shape.seq_len, shape.kv_len, shape.scale,
            CAUSAL=causal, HEAD_DIM=shape.head_dim, BLOCK_M=block_m, BLOCK_N=block_n,
            **flash2_options(block_m, block_n, shape.head_dim, q.element_size(), shared_memory_bytes(q.device)),
        )  # fmt: skip
    return o, lse
