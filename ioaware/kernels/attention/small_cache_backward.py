"""Compute attention's backward pass in square tiles.

It is the order for an on-chip memory of less than d^2 elements.

Li et al. 2024, arXiv 2410.09397, whose bound for M = o(d^2) is Theta((N^2 d + N d^2) / sqrt(M)): all products in B x B tiles,
B about sqrt(M), so that P and dS pass through HBM. Per (batch, head), with L the log-sum-exp of the forward pass:
    D = rowsum(dO O)
    for each tile (i, j):               S_ij = sum over c of Q_ic K_jc^T;  dP_ij = sum over c of dO_ic V_jc^T
                                        write P_ij = e^(S_ij - L_i) and dS_ij = P_ij (dP_ij - D_i)
    dV = P^T dO,  dK = dS^T Q,  dQ = dS K, each in B x B tiles
P and dS have the inputs' dtype. Elements read: 2 N d + 2 N, 2 N d T_k + 2 N_k d T_r, and 3 N N_k T_d + 2 N d T_k + N_k d T_r,
for T_r, T_k, T_d blocks of N, N_k, d; written: N + 2 N N_k + N d + 2 N_k d. There is no mask.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.backward_tiles import load_rows
from ioaware.kernels.attention.blocks.square_tiles import square_product, tile_of_product
from ioaware.kernels.attention.blocks.tiles import store_block
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.flash2_backward import flash2_backward_delta
from ioaware.kernels.attention.launching.launch import launching
from ioaware.kernels.attention.launching.on_chip_limits import square_options


@triton.jit
def small_cache_scores(
    Q, K, V, dO, Lse, Delta, P, dS,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_gb, stride_gh, stride_gn, stride_gd,
    seq_len, kv_len, scale, HEAD_DIM: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
    """Compute P and scale dS of one row block, tile by tile.

    Grid (row blocks, heads, batch).
    """
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    Q += batch * stride_qb + head * stride_qh
    K += batch * stride_kb + head * stride_kh
    V += batch * stride_vb + head * stride_vh
    dO += batch * stride_gb + head * stride_gh
    matrix = (batch * tl.num_programs(1) + head) * seq_len * kv_len
    rows = (batch * tl.num_programs(1) + head) * seq_len
    row = tl.program_id(0) * SIDE
    lse = load_rows(Lse + rows, row, seq_len, SIDE)  # [B]
    delta = load_rows(Delta + rows, row, seq_len, SIDE)  # [B]
    for col in range(0, kv_len, SIDE):
        s = tile_of_product(Q, K, row, col, seq_len, kv_len, stride_qn, stride_qd, stride_kn, stride_kd, HEAD_DIM, SIDE)
        dp = tile_of_product(dO, V, row, col, seq_len, kv_len, stride_gn, stride_gd, stride_vn, stride_vd, HEAD_DIM, SIDE)
        p = tl.exp(s * scale - lse[:, None])  # [B, B]
        store_block(p, P + matrix, row, col, seq_len, kv_len, kv_len, 1, SIDE, SIDE)
        store_block(p * (dp - delta[:, None]) * scale, dS + matrix, row, col, seq_len, kv_len, kv_len, 1, SIDE, SIDE)


def small_cache_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    *,
    scale: float | None = None,
    block_m: int = 32,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute dQ, dK and dV in tiles of block_m x block_m.

    q, o, do [batch, heads, seq_len, head_dim], k and v [batch, heads, kv_len, head_dim]: float16, bfloat16 or float32, any
    strides; lse [batch, heads, seq_len], float32. Extra memory: P and dS, and D in float32.
    Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    shape = check_attention("small_cache_bwd", q, k, v, scale=scale, block_m=block_m, block_n=block_m)
    batch, heads, seq_len, kv_len = shape.batch, shape.heads, shape.seq_len, shape.kv_len
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    p, ds = (torch.empty((batch, heads, seq_len, kv_len), dtype=q.dtype, device=q.device) for _ in range(2))
    delta = torch.empty((batch, heads, seq_len), dtype=torch.float32, device=q.device)
    rows, cols = (triton.cdiv(seq_len, block_m), heads, batch), (triton.cdiv(kv_len, block_m), heads, batch)
    constants = {"HEAD_DIM": shape.head_dim, "SIDE": block_m, **square_options(block_m, q.element_size())}
    with launching("small_cache_bwd", q.device):
        flash2_backward_delta[rows](
            o, do, delta, dq, *o.stride(), *do.stride(), *dq.stride(), seq_len,
            HEAD_DIM=shape.head_dim, BLOCK_M=block_m, ATOMIC=False,
        )  # fmt: skip
        small_cache_scores[rows](
            q, k, v, do, lse, delta, p, ds, *q.stride(), *k.stride(), *v.stride(), *do.stride(), seq_len, kv_len, shape.scale,
            **constants,
        )  # fmt: skip
        square_product[cols](p, do, dv, *do.stride(), *dv.stride(), seq_len, kv_len, **constants, TRANSPOSED=True)
        square_product[cols](ds, q, dk, *q.stride(), *dk.stride(), seq_len, kv_len, **constants, TRANSPOSED=True)
        square_product[rows](ds, k, dq, *k.stride(), *dq.stride(), seq_len, kv_len, **constants, TRANSPOSED=False)
    return dq, dk, dv
