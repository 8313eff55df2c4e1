"""Compute FlashAttention-2's backward pass in both forms of real kernels.

dQ is added by atomics, or computed by a separate kernel.

Dao 2023, arXiv 2307.08691, Algorithm 2, per (batch, head), with L the log-sum-exp of the forward pass:
    D = rowsum(dO O)                        a pre-pass, which also zeroes dQ's float32 accumulator in the atomic form   (line 4)
    for each column block j:                load K_j, V_j;  dK_j = 0, dV_j = 0 on chip
        for each row block i:               load Q_i, dO_i, L_i, D_i
            P = exp(Q_i K_j^T - L_i);  dV_j += P^T dO_i;  dS = P (dO_i V_j^T - D_i);  dK_j += dS^T Q_i
            atomic form:                    dQ_i += dS K_j in HBM, float32
        write dK_j, dV_j
    atomic form:        for each row block: round dQ_i from its accumulator
    two-kernel form:    for each row block i: load Q_i, dO_i, L_i, D_i; for each K_j, V_j: dS again, dQ_i += dS K_j on chip
With T_r row blocks and T_c column blocks, elements: the pre-pass reads 2 N d and writes N; the column pass reads 2 N_k d + T_c
(2 N d + 2 N) and writes 2 N_k d. The atomic form updates T_c N d elements, writes N d zeros, and reads and writes N d at last.
The two-kernel form reads 2 N d + 2 N + 2 N_k d T_r and writes N d instead, and recomputes S and dP.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.backward_tiles import load_rows, probabilities, score_gradients, zero_block
from ioaware.kernels.attention.blocks.masks import first_row_block, last_column_block, visible_pairs
from ioaware.kernels.attention.blocks.tiles import block_mask, block_pointers, load_block, store_block, tile_side
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.launching.launch import launching
from ioaware.kernels.attention.launching.on_chip_limits import backward_options


@triton.jit
def flash2_backward_delta(
    O, dO, Delta, dQ_sum,
    stride_ob, stride_oh, stride_on, stride_od, stride_gb, stride_gh, stride_gn, stride_gd,
    stride_sb, stride_sh, stride_sn, stride_sd,
    seq_len, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, ATOMIC: tl.constexpr,
):  # fmt: skip
    """Compute D = rowsum(dO O) of one row block; with ATOMIC, zero dQ's accumulator.

    Grid (row blocks, heads, batch).
    """
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    O += batch * stride_ob + head * stride_oh
    dO += batch * stride_gb + head * stride_gh
    row = tl.program_id(0) * BLOCK_M
    o = load_block(O, row, 0, seq_len, HEAD_DIM, stride_on, stride_od, BLOCK_M, HEAD_DIM)  # [B_r, d]
    do = load_block(dO, row, 0, seq_len, HEAD_DIM, stride_gn, stride_gd, BLOCK_M, HEAD_DIM)  # [B_r, d]
    lanes = tl.arange(0, tile_side(BLOCK_M))
    Delta += (batch * tl.num_programs(1) + head) * seq_len + row
    tl.store(Delta + lanes, tl.sum(o.to(tl.float32) * do.to(tl.float32), 1), mask=(lanes < BLOCK_M) & (row + lanes < seq_len))
    if ATOMIC:
        zero_block(dQ_sum, stride_sb, stride_sh, stride_sn, stride_sd, seq_len, HEAD_DIM, BLOCK_M)


@triton.jit
def flash2_backward_columns(
    Q, K, V, dO, Lse, Delta, dQ_sum, dK, dV,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_gb, stride_gh, stride_gn, stride_gd,
    stride_sb, stride_sh, stride_sn, stride_sd, stride_dkb, stride_dkh, stride_dkn, stride_dkd,
    group, seq_len, kv_len, scale,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, ATOMIC: tl.constexpr,
):  # fmt: skip
    """Compute dK and dV of one column block.

    The sums are over the `group` query heads of its key head; with ATOMIC, the kernel also adds to dQ.

    Grid (column blocks, key heads, batch). dK and dV have the same strides.
    """
    kv_head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    heads = tl.num_programs(1) * group
    col = tl.program_id(0) * BLOCK_N
    K += batch * stride_kb + kv_head * stride_kh
    V += batch * stride_vb + kv_head * stride_vh
    dK += batch * stride_dkb + kv_head * stride_dkh
    dV += batch * stride_dkb + kv_head * stride_dkh
    k = load_block(K, col, 0, kv_len, HEAD_DIM, stride_kn, stride_kd, BLOCK_N, HEAD_DIM)  # [B_c, d]
    v = load_block(V, col, 0, kv_len, HEAD_DIM, stride_vn, stride_vd, BLOCK_N, HEAD_DIM)  # [B_c, d]
    dk = tl.zeros([tile_side(BLOCK_N), tile_side(HEAD_DIM)], tl.float32)  # [B_c, d]
    dv = tl.zeros([tile_side(BLOCK_N), tile_side(HEAD_DIM)], tl.float32)  # [B_c, d]
    for member in range(group):
        head = kv_head * group + member
        rows = (batch * heads + head) * seq_len
        Q_head = Q + batch * stride_qb + head * stride_qh
        dO_head = dO + batch * stride_gb + head * stride_gh
        for i in range(first_row_block(col, seq_len, kv_len, CAUSAL, BLOCK_M), tl.cdiv(seq_len, BLOCK_M)):
            row = i * BLOCK_M
            q = load_block(Q_head, row, 0, seq_len, HEAD_DIM, stride_qn, stride_qd, BLOCK_M, HEAD_DIM)  # [B_r, d]
            do = load_block(dO_head, row, 0, seq_len, HEAD_DIM, stride_gn, stride_gd, BLOCK_M, HEAD_DIM)  # [B_r, d]
            lse = load_rows(Lse + rows, row, seq_len, BLOCK_M)  # [B_r]
            delta = load_rows(Delta + rows, row, seq_len, BLOCK_M)  # [B_r]
            pairs = visible_pairs(row, col, seq_len, kv_len, CAUSAL, BLOCK_M, BLOCK_N)
            p = probabilities(q, k, lse, pairs, scale)  # [B_r, B_c]
            dv = tl.dot(p.to(do.dtype).T, do, dv, input_precision="ieee")
            ds = (score_gradients(p, do, v, delta) * scale).to(q.dtype)  # [B_r, B_c]
            dk = tl.dot(ds.T, q, dk, input_precision="ieee")
            if ATOMIC:
                dQ_head = dQ_sum + batch * stride_sb + head * stride_sh
                pointers = block_pointers(dQ_head, row, 0, stride_sn, stride_sd, BLOCK_M, HEAD_DIM)
                inside = block_mask(row, 0, seq_len, HEAD_DIM, BLOCK_M, HEAD_DIM)
                tl.atomic_add(pointers, tl.dot(ds, k, input_precision="ieee"), mask=inside, sem="relaxed")
    store_block(dk, dK, col, 0, kv_len, HEAD_DIM, stride_dkn, stride_dkd, BLOCK_N, HEAD_DIM)
    store_block(dv, dV, col, 0, kv_len, HEAD_DIM, stride_dkn, stride_dkd, BLOCK_N, HEAD_DIM)


@triton.jit
def flash2_backward_rows(
    Q, K, V, dO, Lse, Delta, dQ,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_gb, stride_gh, stride_gn, stride_gd,
    stride_dqb, stride_dqh, stride_dqn, stride_dqd,
    group, seq_len, kv_len, scale,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute dQ of one row block. Grid (row blocks, heads, batch)."""
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    row, rows = tl.program_id(0) * BLOCK_M, (batch * tl.num_programs(1) + head) * seq_len
    Q += batch * stride_qb + head * stride_qh
    dO += batch * stride_gb + head * stride_gh
    dQ += batch * stride_dqb + head * stride_dqh
    K += batch * stride_kb + head // group * stride_kh
    V += batch * stride_vb + head // group * stride_vh
    q = load_block(Q, row, 0, seq_len, HEAD_DIM, stride_qn, stride_qd, BLOCK_M, HEAD_DIM)  # [B_r, d]
    do = load_block(dO, row, 0, seq_len, HEAD_DIM, stride_gn, stride_gd, BLOCK_M, HEAD_DIM)  # [B_r, d]
    lse = load_rows(Lse + rows, row, seq_len, BLOCK_M)  # [B_r]
    delta = load_rows(Delta + rows, row, seq_len, BLOCK_M)  # [B_r]
    dq = tl.zeros([tile_side(BLOCK_M), tile_side(HEAD_DIM)], tl.float32)  # [B_r, d]
    for j in range(last_column_block(row, seq_len, kv_len, CAUSAL, BLOCK_M, BLOCK_N)):
        col = j * BLOCK_N
        k = load_block(K, col, 0, kv_len, HEAD_DIM, stride_kn, stride_kd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        v = load_block(V, col, 0, kv_len, HEAD_DIM, stride_vn, stride_vd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        pairs = visible_pairs(row, col, seq_len, kv_len, CAUSAL, BLOCK_M, BLOCK_N)
        ds = score_gradients(probabilities(q, k, lse, pairs, scale), do, v, delta) * scale  # [B_r, B_c]
        dq = tl.dot(ds.to(q.dtype), k, dq, input_precision="ieee")
    store_block(dq, dQ, row, 0, seq_len, HEAD_DIM, stride_dqn, stride_dqd, BLOCK_M, HEAD_DIM)


@triton.jit
def flash2_backward_round(
    dQ_sum, dQ, stride_sb, stride_sh, stride_sn, stride_sd, stride_qb, stride_qh, stride_qn, stride_qd,
    seq_len, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Round dQ of one row block from its float32 accumulator.

    Grid (row blocks, heads, batch).
    """
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * BLOCK_M
    dQ_sum += batch * stride_sb + head * stride_sh
    dQ += batch * stride_qb + head * stride_qh
    dq = load_block(dQ_sum, row, 0, seq_len, HEAD_DIM, stride_sn, stride_sd, BLOCK_M, HEAD_DIM)  # [B_r, d]
    store_block(dq, dQ, row, 0, seq_len, HEAD_DIM, stride_qn, stride_qd, BLOCK_M, HEAD_DIM)


def flash2_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_m: int = 64,
    block_n: int = 64,
    atomic: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute dQ, dK and dV by FlashAttention-2.

    dQ is added by float32 atomics, or computed by a separate kernel.

    q, o, do [batch, heads, seq_len, head_dim], k and v [batch, kv_heads, kv_len, head_dim], kv_heads a divisor of heads;
    float16, bfloat16 or float32, any strides. lse [batch, heads, seq_len], float32, as flash2 returns it.
    Extra memory: D, N elements of float32 per head; with atomics also dQ's accumulator, N d elements of float32 per head.
    Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    group = q.shape[1] // k.shape[1]
    shape = check_attention("flash2_bwd", q[:, ::group], k, v, scale=scale, block_m=block_m, block_n=block_n)
    batch, heads, seq_len, kv_len = shape.batch, q.shape[1], shape.seq_len, shape.kv_len
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    delta = torch.empty((batch, heads, seq_len), dtype=torch.float32, device=q.device)
    dq_sum = torch.empty(q.shape, dtype=torch.float32, device=q.device) if atomic else dq
    row_blocks, col_blocks = triton.cdiv(seq_len, block_m), triton.cdiv(kv_len, block_n)
    sizes = (group, seq_len, kv_len, shape.scale)
    constants = {"CAUSAL": causal, "HEAD_DIM": shape.head_dim, "BLOCK_M": block_m, "BLOCK_N": block_n}
    options = backward_options(block_m, block_n, shape.head_dim, q.element_size())
    with launching("flash2_bwd", q.device):
        flash2_backward_delta[(row_blocks, heads, batch)](
            o, do, delta, dq_sum, *o.stride(), *do.stride(), *dq_sum.stride(), seq_len,
            HEAD_DIM=shape.head_dim, BLOCK_M=block_m, ATOMIC=atomic,
        )  # fmt: skip
        flash2_backward_columns[(col_blocks, heads // group, batch)](
            q, k, v, do, lse, delta, dq_sum, dk, dv, *q.stride(), *k.stride(), *v.stride(), *do.stride(), *dq_sum.stride(),
            *dk.stride(), *sizes, **constants, ATOMIC=atomic, **options,
        )  # fmt: skip
        if atomic:
            flash2_backward_round[(row_blocks, heads, batch)](
                dq_sum, dq, *dq_sum.stride(), *dq.stride(), seq_len, HEAD_DIM=shape.head_dim, BLOCK_M=block_m
            )
        else:
            flash2_backward_rows[(row_blocks, heads, batch)](
                q, k, v, do, lse, delta, dq, *q.stride(), *k.stride(), *v.stride(), *do.stride(), *dq.stride(),
                *sizes, **constants, **options,
            )  # fmt: skip
    return dq, dk, dv
