"""Compute attention with log-softmax in place of softmax.

O = (S - lse 1^T) V, in FlashAttention-2's order and as a linear form.

Flash order, per (batch, head) and row block i: with u_i = 0, w = 0, l_i = 0, m_i = -inf on chip; load Q_i
    for each column block j:    load K_j, V_j;  S = scale Q_i K_j^T;  m_i, l_i as in online softmax
                                u_i += S V_j;  w += colsum V_j          neither needs a rescale: the state is (m, l, u, w)
    write O_i = u_i - (m_i + log l_i) w
Linear form: O = scale Q (K^T V) - lse (1^T V). Only lse is quadratic; one program per (batch, head) keeps K^T V [d, d] on chip:
    for each column block j:    load K_j, V_j;  K^T V += K_j^T V_j;  w += colsum V_j
    for each row block i:       load Q_i;  for each j: load K_j;  m_i, l_i;  write O_i = scale Q_i (K^T V) - (m_i + log l_i) w
Elements: N d + 2 N_k d T_r read and N d written; the linear form reads 2 N_k d + N d + N_k d T_r, V once only, and has
2 N N_k d + 2 (N + N_k) d^2 FLOPs instead of 4 N N_k d.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.masks import visible_pairs
from ioaware.kernels.attention.blocks.tiles import load_block, store_block, tile_side
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.launching.launch import launching, shared_memory_bytes
from ioaware.kernels.attention.launching.on_chip_limits import backward_options, flash2_options


@triton.jit
def scores_and_statistics(q, k, m, l, pairs, scale):
    """Return S of a tile, zero where `pairs` is False, and m and l after it."""
    s = tl.dot(q, k.T, input_precision="ieee") * scale  # [B_r, B_c]
    m_new = tl.maximum(m, tl.max(tl.where(pairs, s, float("-inf")), 1))  # [B_r]
    shift = tl.where(m_new == float("-inf"), 0.0, m_new)  # rows beyond the last
    l = l * tl.exp(m - shift) + tl.sum(tl.where(pairs, tl.exp(s - shift[:, None]), 0.0), 1)
    return tl.where(pairs, s, 0.0), m_new, l


@triton.jit
def logsoftmax_kernel(
    Q, K, V, O,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_on, stride_od,
    seq_len, kv_len, scale, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute one row block of one head in flash order.

    Grid (row blocks, heads, batch).
    """
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    Q += batch * stride_qb + head * stride_qh
    K += batch * stride_kb + head * stride_kh
    V += batch * stride_vb + head * stride_vh
    O += batch * stride_ob + head * stride_oh
    row = tl.program_id(0) * BLOCK_M
    q = load_block(Q, row, 0, seq_len, HEAD_DIM, stride_qn, stride_qd, BLOCK_M, HEAD_DIM)  # [B_r, d]
    u = tl.zeros([tile_side(BLOCK_M), tile_side(HEAD_DIM)], tl.float32)  # [B_r, d]
    w = tl.zeros([tile_side(HEAD_DIM)], tl.float32)  # [d]
    l = tl.zeros([tile_side(BLOCK_M)], tl.float32)  # [B_r]
    m = tl.full([tile_side(BLOCK_M)], float("-inf"), tl.float32)  # [B_r]
    for col in range(0, kv_len, BLOCK_N):
        k = load_block(K, col, 0, kv_len, HEAD_DIM, stride_kn, stride_kd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        v = load_block(V, col, 0, kv_len, HEAD_DIM, stride_vn, stride_vd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        pairs = visible_pairs(row, col, seq_len, kv_len, False, BLOCK_M, BLOCK_N)
        s, m, l = scores_and_statistics(q, k, m, l, pairs, scale)
        u = tl.dot(s.to(v.dtype), v, u, input_precision="ieee")
        w += tl.sum(v.to(tl.float32), 0)
    lse = tl.where(l == 0.0, 0.0, m + tl.log(tl.where(l == 0.0, 1.0, l)))  # rows beyond the last have l = 0
    o = u - lse[:, None] * w[None, :]
    store_block(o, O, row, 0, seq_len, HEAD_DIM, stride_on, stride_od, BLOCK_M, HEAD_DIM)


@triton.jit
def logsoftmax_linear_kernel(
    Q, K, V, O,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_on, stride_od,
    seq_len, kv_len, scale, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute one head by its linear form. Grid (heads, batch)."""
    head, batch = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    Q += batch * stride_qb + head * stride_qh
    K += batch * stride_kb + head * stride_kh
    V += batch * stride_vb + head * stride_vh
    O += batch * stride_ob + head * stride_oh
    kv = tl.zeros([tile_side(HEAD_DIM), tile_side(HEAD_DIM)], tl.float32)  # [d, d]
    w = tl.zeros([tile_side(HEAD_DIM)], tl.float32)  # [d]
    for col in range(0, kv_len, BLOCK_N):
        k = load_block(K, col, 0, kv_len, HEAD_DIM, stride_kn, stride_kd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        v = load_block(V, col, 0, kv_len, HEAD_DIM, stride_vn, stride_vd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        kv = tl.dot(k.T, v, kv, input_precision="ieee")
        w += tl.sum(v.to(tl.float32), 0)
    for row in range(0, seq_len, BLOCK_M):
        q = load_block(Q, row, 0, seq_len, HEAD_DIM, stride_qn, stride_qd, BLOCK_M, HEAD_DIM)  # [B_r, d]
        l = tl.zeros([tile_side(BLOCK_M)], tl.float32)  # [B_r]
        m = tl.full([tile_side(BLOCK_M)], float("-inf"), tl.float32)  # [B_r]
        for col in range(0, kv_len, BLOCK_N):
            k = load_block(K, col, 0, kv_len, HEAD_DIM, stride_kn, stride_kd, BLOCK_N, HEAD_DIM)  # [B_c, d]
            pairs = visible_pairs(row, col, seq_len, kv_len, False, BLOCK_M, BLOCK_N)
            _, m, l = scores_and_statistics(q, k, m, l, pairs, scale)
        lse = tl.where(l == 0.0, 0.0, m + tl.log(tl.where(l == 0.0, 1.0, l)))  # rows beyond the last have l = 0
        o = tl.dot(q.to(tl.float32), kv, input_precision="ieee") * scale - lse[:, None] * w[None, :]
        store_block(o, O, row, 0, seq_len, HEAD_DIM, stride_on, stride_od, BLOCK_M, HEAD_DIM)


def logsoftmax_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    block_m: int = 64,
    block_n: int = 64,
    linear: bool = False,
) -> torch.Tensor:
    """Compute log_softmax(scale Q K^T) V.

    It is in flash order, or by the linear form Q (K^T V).

    q [batch, heads, seq_len, head_dim], k and v [batch, heads, kv_len, head_dim]: float16, bfloat16 or float32, any strides.
    There is no mask: the logarithm of a masked weight is -inf. scale is 1/sqrt(head_dim) unless given.
    Returns o like q. Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    shape = check_attention("logsoftmax_attention", q, k, v, scale=scale, block_m=block_m, block_n=block_n)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    kernel = logsoftmax_linear_kernel if linear else logsoftmax_kernel
    grid = (shape.heads, shape.batch) if linear else (triton.cdiv(shape.seq_len, block_m), shape.heads, shape.batch)
    options = flash2_options(block_m, block_n, shape.head_dim, q.element_size(), shared_memory_bytes(q.device))
    if linear:  # K^T V stays in registers
        options = backward_options(block_m, block_n, shape.head_dim, q.element_size(), tiles=4)
    with launching("logsoftmax_attention", q.device):
        kernel[grid](
            q, k, v, o, *q.stride(), *k.stride(), *v.stride(), *o.stride(), shape.seq_len, shape.kv_len, shape.scale,
            HEAD_DIM=shape.head_dim, BLOCK_M=block_m, BLOCK_N=block_n,
            **options,
        )  # fmt: skip
    return o
