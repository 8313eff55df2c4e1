"""FlashAttention, backward: P recomputed from l and m.

Column blocks outside, row blocks inside, dQ in HBM at every step.

Dao et al. 2022, arXiv 2205.14135, Algorithm 4 without dropout, per (batch, head):
    dQ = 0, dK = 0, dV = 0 in HBM                                                               (line 5)
    for each column block j:            load K_j, V_j;  dK_j = 0, dV_j = 0 on chip              (lines 6 to 8)
        for each row block i:           load Q_i, O_i, dO_i, dQ_i, l_i, m_i                     (lines 9, 10)
            S = Q_i K_j^T;  P = exp(S - m_i) / l_i                                              (lines 11 to 13)
            dV_j += P^T dO_i;  dP = dO_i V_j^T;  D_i = rowsum(dO_i O_i);  dS = P (dP - D_i)     (lines 16 to 20)
            write dQ_i += dS K_j;  dK_j += dS^T Q_i                                             (lines 21, 22)
        write dK_j, dV_j                                                                        (line 24)
Reads 2 N_k d + T_c (4 N d + 2 N) elements and writes N d (1 + T_c) + 4 N_k d, T_c = ceil(N_k / B_c): line 5 writes dK and dV,
which line 8 makes unnecessary. Causal starts each inner loop at the first row block that sees a key of column block j.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.backward_tiles import load_rows, probabilities, score_gradients, zero_block
from ioaware.kernels.attention.blocks.masks import first_row_block, visible_pairs
from ioaware.kernels.attention.blocks.tiles import load_block, store_block, tile_side
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.launching.launch import launching
from ioaware.kernels.attention.launching.on_chip_limits import backward_options


@triton.jit
def flash1_backward_init(
    dQ, dK, dV, stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    seq_len, kv_len, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Initialise dQ, dK and dV with zeros (line 5).

    Grid (blocks of rows or keys, heads, batch).
    """
    zero_block(dQ, stride_qb, stride_qh, stride_qn, stride_qd, seq_len, HEAD_DIM, BLOCK_M)
    zero_block(dK, stride_kb, stride_kh, stride_kn, stride_kd, kv_len, HEAD_DIM, BLOCK_M)
    zero_block(dV, stride_kb, stride_kh, stride_kn, stride_kd, kv_len, HEAD_DIM, BLOCK_M)


@triton.jit
def flash1_backward_kernel(
    Q, K, V, O, dO, L, M, dQ, dK, dV,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_on, stride_od,
    stride_gb, stride_gh, stride_gn, stride_gd, stride_dqb, stride_dqh, stride_dqn, stride_dqd,
    stride_dkb, stride_dkh, stride_dkn, stride_dkd,
    seq_len, kv_len, scale,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute one head.

    Grid (heads, batch): dQ_i in HBM belongs to one program. dK and dV have the same strides.
    """
    head, batch = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    Q += batch * stride_qb + head * stride_qh
    K += batch * stride_kb + head * stride_kh
    V += batch * stride_vb + head * stride_vh
    O += batch * stride_ob + head * stride_oh
    dO += batch * stride_gb + head * stride_gh
    dQ += batch * stride_dqb + head * stride_dqh
    dK += batch * stride_dkb + head * stride_dkh
    dV += batch * stride_dkb + head * stride_dkh
    L += (batch * tl.num_programs(0) + head) * seq_len
    M += (batch * tl.num_programs(0) + head) * seq_len

    for j in range(tl.cdiv(kv_len, BLOCK_N)):
        col = j * BLOCK_N
        k = load_block(K, col, 0, kv_len, HEAD_DIM, stride_kn, stride_kd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        v = load_block(V, col, 0, kv_len, HEAD_DIM, stride_vn, stride_vd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        dk = tl.zeros([tile_side(BLOCK_N), tile_side(HEAD_DIM)], tl.float32)  # [B_c, d]
        dv = tl.zeros([tile_side(BLOCK_N), tile_side(HEAD_DIM)], tl.float32)  # [B_c, d]
        for i in range(first_row_block(col, seq_len, kv_len, CAUSAL, BLOCK_M), tl.cdiv(seq_len, BLOCK_M)):
            row = i * BLOCK_M
            q = load_block(Q, row, 0, seq_len, HEAD_DIM, stride_qn, stride_qd, BLOCK_M, HEAD_DIM)  # [B_r, d]
            o = load_block(O, row, 0, seq_len, HEAD_DIM, stride_on, stride_od, BLOCK_M, HEAD_DIM)  # [B_r, d]
            do = load_block(dO, row, 0, seq_len, HEAD_DIM, stride_gn, stride_gd, BLOCK_M, HEAD_DIM)  # [B_r, d]
            dq = load_block(dQ, row, 0, seq_len, HEAD_DIM, stride_dqn, stride_dqd, BLOCK_M, HEAD_DIM)  # [B_r, d]
            l = load_rows(L, row, seq_len, BLOCK_M)  # [B_r]
            m = load_rows(M, row, seq_len, BLOCK_M)  # [B_r]

            pairs = visible_pairs(row, col, seq_len, kv_len, CAUSAL, BLOCK_M, BLOCK_N)
            p = probabilities(q, k, m, pairs, scale) / tl.where(l == 0.0, 1.0, l)[:, None]  # [B_r, B_c]
            dv = tl.dot(p.to(do.dtype).T, do, dv, input_precision="ieee")
            delta = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1)  # [B_r]
            ds = (score_gradients(p, do, v, delta) * scale).to(q.dtype)  # [B_r, B_c]
            dq = tl.dot(ds, k, dq.to(tl.float32), input_precision="ieee")
            store_block(dq, dQ, row, 0, seq_len, HEAD_DIM, stride_dqn, stride_dqd, BLOCK_M, HEAD_DIM)
            dk = tl.dot(ds.T, q, dk, input_precision="ieee")
        store_block(dk, dK, col, 0, kv_len, HEAD_DIM, stride_dkn, stride_dkd, BLOCK_N, HEAD_DIM)
        store_block(dv, dV, col, 0, kv_len, HEAD_DIM, stride_dkn, stride_dkd, BLOCK_N, HEAD_DIM)
        # The next j reads dQ_i that other threads of this program have written.
        tl.debug_barrier()


def flash1_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    l: torch.Tensor,
    m: torch.Tensor,
    do: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute dQ, dK and dV by FlashAttention's Algorithm 4.

    DQ is rounded to the inputs' dtype at every step.

    q, o, do [batch, heads, seq_len, head_dim], k and v [batch, heads, kv_len, head_dim]: float16, bfloat16 or float32, any
    strides; l and m [batch, heads, seq_len], float32, as flash1_forward returns them. B_r = block_m, B_c = block_n.
    No extra memory. Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    shape = check_attention("flash1_bwd", q, k, v, scale=scale, block_m=block_m, block_n=block_n)
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    with launching("flash1_bwd", q.device):
        flash1_backward_init[(triton.cdiv(max(shape.seq_len, shape.kv_len), block_m), shape.heads, shape.batch)](
            dq, dk, dv, *dq.stride(), *dk.stride(), shape.seq_len, shape.kv_len, HEAD_DIM=shape.head_dim, BLOCK_M=block_m
        )
        flash1_backward_kernel[(shape.heads, shape.batch)](
            q, k, v, o, do, l, m, dq, dk, dv, *q.stride(), *k.stride(), *v.stride(), *o.stride(), *do.stride(), *dq.stride(),
            *dk.stride(), shape.seq_len, shape.kv_len, shape.scale,
            CAUSAL=causal, HEAD_DIM=shape.head_dim, BLOCK_M=block_m, BLOCK_N=block_n,
            **backward_options(block_m, block_n, shape.head_dim, q.element_size(), tiles=4),
        )  # fmt: skip
    return dq, dk, dv
