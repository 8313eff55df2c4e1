"""Compute the backward pass of a decoder's attention.

It goes through dropout, softmax, mask, scale and LayerNorm, in FlashAttention-2's two kernels.

With q, k, v the LayerNorms of Q, K, V, Z dropout's mask recomputed from its counter and D = rowsum(dO O):
    paper      P = e^(S - L);    A = Z P / (1 - p);   dS = P (Z / (1 - p) (dO v^T) - D)
    notebook   A = Z e^(S - L);                       dS = A (dO v^T - D)
    for each column block j:   over row blocks i:     dv += A^T dO_i;  dk += scale dS^T q;  write dK_j, dV_j through LayerNorm
    for each row block i:      over column blocks j:  dq += scale dS k;                     write dQ_i through LayerNorm
Elements: FlashAttention-2's two-kernel form with a causal mask. The notebook form omits the gradient of m: its sum is zero.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.backward_tiles import load_rows
from ioaware.kernels.attention.blocks.masks import first_row_block, last_column_block, visible_pairs
from ioaware.kernels.attention.blocks.tiles import load_block, store_block, tile_side
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.flash2_backward import flash2_backward_delta
from ioaware.kernels.attention.launching.launch import launching
from ioaware.kernels.attention.launching.on_chip_limits import backward_options
from ioaware.kernels.decoder.dropout import kept_pairs, threshold
from ioaware.kernels.decoder.layer_norm import layer_norm_gradient, load_normalised, load_with_statistics


@triton.jit
def weights_and_gradients(
    q, k, v, do, lse, delta, row, col, seq_len, kv_len, scale, seed, limit, keep_inverse,
    NOTEBOOK: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Return A and dS of a tile [B_r, B_c]."""
    pairs = visible_pairs(row, col, seq_len, kv_len, True, BLOCK_M, BLOCK_N) & (lse > float("-inf"))[:, None]
    s = tl.dot(q, k.T, input_precision="ieee") * scale
    p = tl.where(pairs, tl.exp(s - lse[:, None]), 0.0)
    z = tl.where(kept_pairs(seed, row, col, kv_len, limit, BLOCK_M, BLOCK_N), 1.0 if NOTEBOOK else keep_inverse, 0.0)
    a = z * p
    da = tl.dot(do, v.T, input_precision="ieee")
    return a, (a * (da - delta[:, None]) if NOTEBOOK else p * (z * da - delta[:, None]))


@triton.jit
def decoder_backward_columns(
    Q, K, V, dO, Lse, Delta, dK, dV,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_gb, stride_gh, stride_gn, stride_gd,
    stride_dkb, stride_dkh, stride_dkn, stride_dkd,
    seq_len, kv_len, scale, seed, limit, keep_inverse,
    NOTEBOOK: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute dK and dV of one column block.

    Grid (column blocks, heads, batch). dK and dV have the same strides.
    """
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    batch_head = batch * tl.num_programs(1) + head
    Q += batch * stride_qb + head * stride_qh
    K += batch * stride_kb + head * stride_kh
    V += batch * stride_vb + head * stride_vh
    dO += batch * stride_gb + head * stride_gh
    dK += batch * stride_dkb + head * stride_dkh
    dV += batch * stride_dkb + head * stride_dkh
    col, rows = tl.program_id(0) * BLOCK_N, batch_head * seq_len
    k, k_hat, k_inverse = load_with_statistics(K, col, kv_len, stride_kn, stride_kd, HEAD_DIM, BLOCK_N)  # [B_c, d]
    v, v_hat, v_inverse = load_with_statistics(V, col, kv_len, stride_vn, stride_vd, HEAD_DIM, BLOCK_N)  # [B_c, d]
    dk = tl.zeros([tile_side(BLOCK_N), tile_side(HEAD_DIM)], tl.float32)  # [B_c, d]
    dv = tl.zeros([tile_side(BLOCK_N), tile_side(HEAD_DIM)], tl.float32)  # [B_c, d]
    for i in range(first_row_block(col, seq_len, kv_len, True, BLOCK_M), tl.cdiv(seq_len, BLOCK_M)):
        row = i * BLOCK_M
        q = load_normalised(Q, row, seq_len, stride_qn, stride_qd, HEAD_DIM, BLOCK_M)  # [B_r, d]
        do = load_block(dO, row, 0, seq_len, HEAD_DIM, stride_gn, stride_gd, BLOCK_M, HEAD_DIM)  # [B_r, d]
        lse = load_rows(Lse + rows, row, seq_len, BLOCK_M)  # [B_r]
        delta = load_rows(Delta + rows, row, seq_len, BLOCK_M)  # [B_r]
        a, ds = weights_and_gradients(
            q, k, v, do, lse, delta, row, col, seq_len, kv_len, scale, seed + batch_head, limit, keep_inverse,
            NOTEBOOK, BLOCK_M, BLOCK_N,
        )  # fmt: skip
        dv = tl.dot(a.to(do.dtype).T, do, dv, input_precision="ieee")
        dk = tl.dot((ds * scale).to(q.dtype).T, q, dk, input_precision="ieee")
    dk = layer_norm_gradient(dk, k_hat, k_inverse, HEAD_DIM)
    dv = layer_norm_gradient(dv, v_hat, v_inverse, HEAD_DIM)
    store_block(dk, dK, col, 0, kv_len, HEAD_DIM, stride_dkn, stride_dkd, BLOCK_N, HEAD_DIM)
    store_block(dv, dV, col, 0, kv_len, HEAD_DIM, stride_dkn, stride_dkd, BLOCK_N, HEAD_DIM)


@triton.jit
def decoder_backward_rows(
    Q, K, V, dO, Lse, Delta, dQ,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_gb, stride_gh, stride_gn, stride_gd,
    stride_dqb, stride_dqh, stride_dqn, stride_dqd,
    seq_len, kv_len, scale, seed, limit, keep_inverse,
    NOTEBOOK: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute dQ of one row block. Grid (row blocks, heads, batch)."""
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    batch_head = batch * tl.num_programs(1) + head
    Q += batch * stride_qb + head * stride_qh
    K += batch * stride_kb + head * stride_kh
    V += batch * stride_vb + head * stride_vh
    dO += batch * stride_gb + head * stride_gh
    dQ += batch * stride_dqb + head * stride_dqh
    row, rows = tl.program_id(0) * BLOCK_M, batch_head * seq_len
    q, q_hat, q_inverse = load_with_statistics(Q, row, seq_len, stride_qn, stride_qd, HEAD_DIM, BLOCK_M)  # [B_r, d]
    do = load_block(dO, row, 0, seq_len, HEAD_DIM, stride_gn, stride_gd, BLOCK_M, HEAD_DIM)  # [B_r, d]
    lse = load_rows(Lse + rows, row, seq_len, BLOCK_M)  # [B_r]
    delta = load_rows(Delta + rows, row, seq_len, BLOCK_M)  # [B_r]
    dq = tl.zeros([tile_side(BLOCK_M), tile_side(HEAD_DIM)], tl.float32)  # [B_r, d]
    for j in range(last_column_block(row, seq_len, kv_len, True, BLOCK_M, BLOCK_N)):
        col = j * BLOCK_N
        k = load_normalised(K, col, kv_len, stride_kn, stride_kd, HEAD_DIM, BLOCK_N)  # [B_c, d]
        v = load_normalised(V, col, kv_len, stride_vn, stride_vd, HEAD_DIM, BLOCK_N)  # [B_c, d]
        _, ds = weights_and_gradients(
            q, k, v, do, lse, delta, row, col, seq_len, kv_len, scale, seed + batch_head, limit, keep_inverse,
            NOTEBOOK, BLOCK_M, BLOCK_N,
        )  # fmt: skip
        dq = tl.dot((ds * scale).to(q.dtype), k, dq, input_precision="ieee")
    dq = layer_norm_gradient(dq, q_hat, q_inverse, HEAD_DIM)
    store_block(dq, dQ, row, 0, seq_len, HEAD_DIM, stride_dqn, stride_dqd, BLOCK_M, HEAD_DIM)


def decoder_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    *,
    dropout_percent: int = 10,
    seed: int = 0,
    notebook: bool = False,
    block_m: int = 64,
    block_n: int = 64,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute dQ, dK and dV of a `decoder` that returned o and lse.

    The options are the same.

    Layouts as there; do like q. Extra memory: D, N elements of float32 per head.
    Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    shape = check_attention("decoder_bwd", q, k, v, scale=None, block_m=block_m, block_n=block_n)
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    delta = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    rows = (triton.cdiv(shape.seq_len, block_m), shape.heads, shape.batch)
    cols = (triton.cdiv(shape.kv_len, block_n), shape.heads, shape.batch)
    numbers = (shape.seq_len, shape.kv_len, shape.scale, seed, threshold(dropout_percent), 1 / (1 - dropout_percent / 100))
    constants = {"NOTEBOOK": notebook, "HEAD_DIM": shape.head_dim, "BLOCK_M": block_m, "BLOCK_N": block_n}
    options = backward_options(block_m, block_n, shape.head_dim, q.element_size(), tiles=4)
    with launching("decoder_bwd", q.device):
        flash2_backward_delta[rows](
            o, do, delta, dq, *o.stride(), *do.stride(), *dq.stride(), shape.seq_len,
            HEAD_DIM=shape.head_dim, BLOCK_M=block_m, ATOMIC=False,
        )  # fmt: skip
        decoder_backward_columns[cols](
            q, k, v, do, lse, delta, dk, dv, *q.stride(), *k.stride(), *v.stride(), *do.stride(), *dk.stride(), *numbers,
            **constants, **options,
        )  # fmt: skip
        decoder_backward_rows[rows](
            q, k, v, do, lse, delta, dq, *q.stride(), *k.stride(), *v.stride(), *do.stride(), *dq.stride(), *numbers,
            **constants, **options,
        )  # fmt: skip
    return dq, dk, dv
