"""Compute a decoder's attention in one kernel.

LayerNorm, scale, causal mask, softmax and dropout are on chip, in FlashAttention-2's order.

O = A norm(V), per (batch, head), with S = scale norm(Q) norm(K)^T masked, Z dropout's mask and p its probability:
    paper      A = Z softmax(S) / (1 - p): weights are normalised, then dropped (Dao et al. 2022, arXiv 2205.14135, Algorithm 2)
    notebook   A = Z e^S / rowsum(Z e^S): weights are dropped, then normalised; a row that is dropped whole gives zeros
    for each row block i:           load Q_i;  q = norm(Q_i)
        for each column block j:    load K_j, V_j;  k = norm(K_j), v = norm(V_j);  S;  Z from its counter
                                    m, l and O as in FlashAttention-2, l over e^S (paper) or Z e^S (notebook)
        write O_i and L_i = m + log l
Elements: FlashAttention-2's. LayerNorm is recomputed for each row block, the mask in the backward pass; neither is stored.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.masks import last_column_block, visible_pairs
from ioaware.kernels.attention.blocks.tiles import store_block, tile_side
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.launching.launch import launching
from ioaware.kernels.attention.launching.on_chip_limits import backward_options
from ioaware.kernels.decoder.dropout import kept_pairs, threshold
from ioaware.kernels.decoder.layer_norm import load_normalised


@triton.jit
def decoder_kernel(
    Q, K, V, O, Lse,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_on, stride_od,
    seq_len, kv_len, scale, seed, limit, keep_inverse,
    NOTEBOOK: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute one row block of one head.

    Grid (row blocks, heads, batch). keep_inverse: 1 / (1 - p).
    """
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    batch_head = batch * tl.num_programs(1) + head
    Q += batch * stride_qb + head * stride_qh
    K += batch * stride_kb + head * stride_kh
    V += batch * stride_vb + head * stride_vh
    O += batch * stride_ob + head * stride_oh
    row = tl.program_id(0) * BLOCK_M
    q = load_normalised(Q, row, seq_len, stride_qn, stride_qd, HEAD_DIM, BLOCK_M)  # [B_r, d]
    o = tl.zeros([tile_side(BLOCK_M), tile_side(HEAD_DIM)], tl.float32)  # [B_r, d]
    l = tl.zeros([tile_side(BLOCK_M)], tl.float32)  # [B_r]
    m = tl.full([tile_side(BLOCK_M)], float("-inf"), tl.float32)  # [B_r]
    for j in range(last_column_block(row, seq_len, kv_len, True, BLOCK_M, BLOCK_N)):
        col = j * BLOCK_N
        k = load_normalised(K, col, kv_len, stride_kn, stride_kd, HEAD_DIM, BLOCK_N)  # [B_c, d]
        v = load_normalised(V, col, kv_len, stride_vn, stride_vd, HEAD_DIM, BLOCK_N)  # [B_c, d]
        pairs = visible_pairs(row, col, seq_len, kv_len, True, BLOCK_M, BLOCK_N)
        s = tl.where(pairs, tl.dot(q, k.T, input_precision="ieee") * scale, float("-inf"))  # [B_r, B_c]
        m_new = tl.maximum(m, tl.max(s, 1))  # [B_r]
        shift = tl.where(m_new == float("-inf"), 0.0, m_new)  # a row without a visible key: -inf - (-inf) is NaN
        p, decay = tl.exp(s - shift[:, None]), tl.exp(m - shift)
        dropped = tl.where(kept_pairs(seed + batch_head, row, col, kv_len, limit, BLOCK_M, BLOCK_N), p, 0.0)  # [B_r, B_c]
        l = l * decay + tl.sum(dropped if NOTEBOOK else p, 1)
        o = tl.dot(dropped.to(v.dtype), v, o * decay[:, None], input_precision="ieee")
        m = m_new
    m = tl.where(l == 0.0, float("-inf"), m)  # no visible key, or none kept: O = 0
    l = tl.where(l == 0.0, 1.0, l)
    o = o / l[:, None] * (1.0 if NOTEBOOK else keep_inverse)
    store_block(o, O, row, 0, seq_len, HEAD_DIM, stride_on, stride_od, BLOCK_M, HEAD_DIM)
    lanes = tl.arange(0, tile_side(BLOCK_M))
    tl.store(Lse + batch_head * seq_len + row + lanes, m + tl.log(l), mask=(lanes < BLOCK_M) & (row + lanes < seq_len))


def decoder(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    dropout_percent: int = 10,
    seed: int = 0,
    notebook: bool = False,
    block_m: int = 64,
    block_n: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute causal attention of the LayerNorms of q, k and v with dropout.

    Return o and the log-sum-exp of its weights.

    q [batch, heads, seq_len, head_dim], k and v [batch, heads, kv_len, head_dim]: float16, bfloat16 or float32, any strides.
    Head number h has the seed `seed` + h. Returns o like q and lse [batch, heads, seq_len] in float32.
    Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    shape = check_attention("decoder", q, k, v, scale=None, block_m=block_m, block_n=block_n)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    with launching("decoder", q.device):
        decoder_kernel[(triton.cdiv(shape.seq_len, block_m), shape.heads, shape.batch)](
            q, k, v, o, lse, *q.stride(), *k.stride(), *v.stride(), *o.stride(), shape.seq_len, shape.kv_len, shape.scale,
            seed, threshold(dropout_percent), 1 / (1 - dropout_percent / 100),
            NOTEBOOK=notebook, HEAD_DIM=shape.head_dim, BLOCK_M=block_m, BLOCK_N=block_n,
            **backward_options(block_m, block_n, shape.head_dim, q.element_size()),
        )  # fmt: skip
    return o, lse
