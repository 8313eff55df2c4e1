"""Attention's gradients in plain Triton: one kernel for dK and dV, one for dQ, no atomics, hence the same bits every time.

Dao 2023, arXiv 2307.08691, Algorithm 2, its loop split in two so that every block of a gradient has one writer:
    D = rowsum(dO * O)
    for each column block j:     for each row block i:     P = exp(S - lse);  dV_j += P^T dO_i
                                                           dS = P * (dO_i V_j^T - D_i);  dK_j += dS^T Q_i
    for each row block i:        for each column block j:  P and dS again;  dQ_i += dS K_j
Seven matmuls a pair of blocks instead of five buy determinism and no float32 copy of dQ.
"""

# The names are the paper's, and parameters of a Triton function have no Python types.
# ruff: noqa: E741
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportConstantRedefinition=false
# pyright: reportCallIssue=false, reportArgumentType=false
from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.launch import launching
from ioaware.kernels.attention.tiles import load_block, store_block, tile_side

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def weights(q, k, do, v, lse, delta, row, col, seq_len, kv_len, scale_log2, CAUSAL: tl.constexpr):
    """P and dS of one pair of blocks [B_r, B_c]; zero where a row does not see a key."""
    rows = row + tl.arange(0, q.shape[0])[:, None]
    cols = col + tl.arange(0, k.shape[0])[None, :]
    seen = cols < kv_len
    if CAUSAL:
        seen &= cols <= rows + (kv_len - seq_len)
    s = tl.dot(q, k.T, input_precision="ieee") * scale_log2
    p = tl.where(seen, tl.math.exp2(s - lse[:, None]), 0.0)
    ds = tl.where(seen, p * (tl.dot(do, v.T, input_precision="ieee") - delta[:, None]), 0.0)
    return p, ds


@triton.jit
def load_rows(X, row, seq_len, BLOCK_M: tl.constexpr):
    """float32 numbers of B_r rows, zeros beyond seq_len."""
    lanes = tl.arange(0, tile_side(BLOCK_M))
    return tl.load(X + row + lanes, mask=(lanes < BLOCK_M) & (row + lanes < seq_len), other=0.0)


@triton.jit
def delta_kernel(
    O, dO, Delta, stride_ob, stride_oh, stride_on, stride_od, stride_gb, stride_gh, stride_gn, stride_gd, seq_len,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """D = rowsum(dO * O): grid (row blocks, heads, batch)."""
    row, head, batch = tl.program_id(0) * BLOCK_M, tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    O += batch * stride_ob + head * stride_oh
    dO += batch * stride_gb + head * stride_gh
    o = load_block(O, row, 0, seq_len, HEAD_DIM, stride_on, stride_od, BLOCK_M, HEAD_DIM)
    do = load_block(dO, row, 0, seq_len, HEAD_DIM, stride_gn, stride_gd, BLOCK_M, HEAD_DIM)
    lanes = tl.arange(0, tile_side(BLOCK_M))
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    Delta += (batch * tl.num_programs(1) + head) * seq_len
    tl.store(Delta + row + lanes, delta, mask=(lanes < BLOCK_M) & (row + lanes < seq_len))


@triton.jit
def dkdv_kernel(
    Q, K, V, dO, dK, dV, Lse, Delta,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_gb, stride_gh, stride_gn, stride_gd,
    stride_dkb, stride_dkh, stride_dkn, stride_dkd, stride_dvb, stride_dvh, stride_dvn, stride_dvd,
    seq_len, kv_len, group, scale,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """dK and dV of one column block of one key head: grid (column blocks, key heads, batch)."""
    col, kv_head, batch = tl.program_id(0) * BLOCK_N, tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    K += batch * stride_kb + kv_head * stride_kh
    V += batch * stride_vb + kv_head * stride_vh
    k = load_block(K, col, 0, kv_len, HEAD_DIM, stride_kn, stride_kd, BLOCK_N, HEAD_DIM)  # [B_c, d]
    v = load_block(V, col, 0, kv_len, HEAD_DIM, stride_vn, stride_vd, BLOCK_N, HEAD_DIM)  # [B_c, d]
    dk = tl.zeros([tile_side(BLOCK_N), tile_side(HEAD_DIM)], tl.float32)
    dv = tl.zeros([tile_side(BLOCK_N), tile_side(HEAD_DIM)], tl.float32)
    first = 0
    if CAUSAL:
        first = tl.maximum(col - (kv_len - seq_len), 0) // BLOCK_M  # the first row block that sees a key of this one
    for member in range(group):
        head = kv_head * group + member
        rows = (batch * tl.num_programs(1) * group + head) * seq_len
        q_head = Q + batch * stride_qb + head * stride_qh
        do_head = dO + batch * stride_gb + head * stride_gh
        for i in range(first, tl.cdiv(seq_len, BLOCK_M)):
            row = i * BLOCK_M
            q = load_block(q_head, row, 0, seq_len, HEAD_DIM, stride_qn, stride_qd, BLOCK_M, HEAD_DIM)  # [B_r, d]
            do = load_block(do_head, row, 0, seq_len, HEAD_DIM, stride_gn, stride_gd, BLOCK_M, HEAD_DIM)  # [B_r, d]
            lse = load_rows(Lse + rows, row, seq_len, BLOCK_M) * LOG2_E
            delta = load_rows(Delta + rows, row, seq_len, BLOCK_M)
            p, ds = weights(q, k, do, v, lse, delta, row, col, seq_len, kv_len, scale * LOG2_E, CAUSAL)
            dv = tl.dot(p.to(do.dtype).T, do, dv, input_precision="ieee")
            dk = tl.dot(ds.to(q.dtype).T, q, dk, input_precision="ieee")
    dK += batch * stride_dkb + kv_head * stride_dkh
    dV += batch * stride_dvb + kv_head * stride_dvh
    store_block(dk * scale, dK, col, 0, kv_len, HEAD_DIM, stride_dkn, stride_dkd, BLOCK_N, HEAD_DIM)
    store_block(dv, dV, col, 0, kv_len, HEAD_DIM, stride_dvn, stride_dvd, BLOCK_N, HEAD_DIM)


@triton.jit
def dq_kernel(
    Q, K, V, dO, dQ, Lse, Delta,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_gb, stride_gh, stride_gn, stride_gd,
    stride_dqb, stride_dqh, stride_dqn, stride_dqd,
    seq_len, kv_len, group, scale,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """dQ of one row block of one head: grid (row blocks, heads, batch)."""
    row, head, batch = tl.program_id(0) * BLOCK_M, tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    K += batch * stride_kb + head // group * stride_kh
    V += batch * stride_vb + head // group * stride_vh
    q = load_block(Q + batch * stride_qb + head * stride_qh, row, 0, seq_len, HEAD_DIM, stride_qn, stride_qd, BLOCK_M, HEAD_DIM)
    do = load_block(
        dO + batch * stride_gb + head * stride_gh, row, 0, seq_len, HEAD_DIM, stride_gn, stride_gd, BLOCK_M, HEAD_DIM
    )
    rows = (batch * tl.num_programs(1) + head) * seq_len
    lse = load_rows(Lse + rows, row, seq_len, BLOCK_M) * LOG2_E
    delta = load_rows(Delta + rows, row, seq_len, BLOCK_M)
    dq = tl.zeros([tile_side(BLOCK_M), tile_side(HEAD_DIM)], tl.float32)
    keys = kv_len
    if CAUSAL:
        keys = tl.maximum(tl.minimum(row + BLOCK_M, seq_len) + (kv_len - seq_len), 0)
    for j in range(tl.cdiv(keys, BLOCK_N)):
        col = j * BLOCK_N
        k = load_block(K, col, 0, kv_len, HEAD_DIM, stride_kn, stride_kd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        v = load_block(V, col, 0, kv_len, HEAD_DIM, stride_vn, stride_vd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        _, ds = weights(q, k, do, v, lse, delta, row, col, seq_len, kv_len, scale * LOG2_E, CAUSAL)
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    dQ += batch * stride_dqb + head * stride_dqh
    store_block(dq * scale, dQ, row, 0, seq_len, HEAD_DIM, stride_dqn, stride_dqd, BLOCK_M, HEAD_DIM)


def backward_options(head_dim: int) -> dict[str, int]:
    """Blocks, warps and stages that fit without spilling on sm_90."""
    if head_dim <= 64:
        return {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2}
    if head_dim <= 128:
        return {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 8, "num_stages": 2}
    return {"BLOCK_M": 32, "BLOCK_N": 32, "num_warps": 4, "num_stages": 1}


def attention_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    *,
    causal: bool,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dQ, dK and dV. q, o, do [batch, heads, seq_len, head_dim]; k, v [batch, kv_heads, kv_len, head_dim], kv_heads a
    divisor of heads; lse [batch, heads, seq_len], contiguous, float32, natural. Any strides; deterministic."""
    batch, heads, seq_len, head_dim = q.shape
    kv_heads, kv_len = k.shape[1], k.shape[2]
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    delta = torch.empty_like(lse)
    options = backward_options(head_dim)
    sizes = (seq_len, kv_len, heads // kv_heads, scale)
    with launching("attention", q.device):
        delta_kernel[(triton.cdiv(seq_len, 64), heads, batch)](
            o, do, delta, *o.stride(), *do.stride(), seq_len, HEAD_DIM=head_dim, BLOCK_M=64
        )
        dkdv_kernel[(triton.cdiv(kv_len, options["BLOCK_N"]), kv_heads, batch)](
            q, k, v, do, dk, dv, lse, delta,
            *q.stride(), *k.stride(), *v.stride(), *do.stride(), *dk.stride(), *dv.stride(), *sizes,
            CAUSAL=causal, HEAD_DIM=head_dim, **options,
        )  # fmt: skip
        dq_kernel[(triton.cdiv(seq_len, options["BLOCK_M"]), heads, batch)](
            q, k, v, do, dq, lse, delta,
            *q.stride(), *k.stride(), *v.stride(), *do.stride(), *dq.stride(), *sizes,
            CAUSAL=causal, HEAD_DIM=head_dim, **options,
        )  # fmt: skip
    return dq, dk, dv
