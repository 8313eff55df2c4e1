"""Compute attention one row at a time, as FlashAttention is derived.

There are two passes of online softmax, then one pass.

Ye 2023, From Online Softmax to FlashAttention, per (batch, head) and row k of Q, with keys in tiles of b:
online_rowwise   for each tile:  x = Q_k K^T;  m_new = max(m, max x);  d' = d' e^(m - m_new) + sum e^(x - m_new);  keep x in HBM
                 for each tile:  O_k += sum_j e^(x_j - m) / d' V_j
flash_rowwise    for each tile:  x, m, d' as above;  O_k = O_k d'_old e^(m_old - m) / d' + sum_j e^(x_j - m) / d' V_j
A row reads d + 2 N_k d elements; the two-pass form also writes and reads N_k logits. No row shares a key with another: K and V
are read N times. b only sets the tile. Causal stops at the last key that the row sees.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.tiles import load_block, tile_side
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.launching.launch import launching


@triton.jit
def logits(q, K, col, kv_len, stride_kn, stride_kd, scale, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr):
    """Return x = scale Q_k K^T of one tile of keys [b], -inf beyond the last."""
    k = load_block(K, col, 0, kv_len, HEAD_DIM, stride_kn, stride_kd, BLOCK_N, HEAD_DIM)  # [b, d]
    lanes = tl.arange(0, tile_side(BLOCK_N))
    x = tl.sum(k.to(tl.float32) * q[None, :], 1) * scale
    return tl.where((lanes < BLOCK_N) & (col + lanes < kv_len), x, float("-inf"))


@triton.jit
def rowwise_kernel(
    Q, K, V, X, O,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_on, stride_od,
    seq_len, kv_len, scale,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, ONE_PASS: tl.constexpr,
):  # fmt: skip
    """Compute one row.

    Grid (rows, heads, batch). X [batch heads, rows, kv_len] float32, not used in one pass.
    """
    row, head, batch = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    K += batch * stride_kb + head * stride_kh
    V += batch * stride_vb + head * stride_vh
    X += ((batch * tl.num_programs(1) + head) * seq_len + row) * kv_len
    dims = tl.arange(0, tile_side(HEAD_DIM))
    inside = dims < HEAD_DIM
    q_row = Q + batch * stride_qb + head * stride_qh + row * stride_qn
    q = tl.load(q_row + dims * stride_qd, mask=inside, other=0.0).to(tl.float32)  # [d]
    o = tl.zeros([tile_side(HEAD_DIM)], tl.float32)  # [d]
    m, denominator = tl.full([], float("-inf"), tl.float32), tl.full([], 0.0, tl.float32)
    lanes = tl.arange(0, tile_side(BLOCK_N))
    keys = kv_len
    if CAUSAL:
        keys = tl.maximum(tl.program_id(0) + 1 + kv_len - seq_len, 0)  # a row without a visible key gives zeros
    for col in range(0, keys, BLOCK_N):
        x = logits(q, K, col, keys, stride_kn, stride_kd, scale, HEAD_DIM, BLOCK_N)  # [b]
        m_new = tl.maximum(m, tl.max(x, 0))
        old = denominator * tl.exp(m - m_new)
        denominator = old + tl.sum(tl.exp(x - m_new), 0)
        if ONE_PASS:
            v = load_block(V, col, 0, keys, HEAD_DIM, stride_vn, stride_vd, BLOCK_N, HEAD_DIM)  # [b, d]
            a = tl.exp(x - m_new) / denominator  # [b]
            o = o * (old / denominator) + tl.sum(a[:, None] * v.to(tl.float32), 0)
        else:
            tl.store(X + col + lanes, x, mask=(lanes < BLOCK_N) & (col + lanes < keys))
        m = m_new
    if not ONE_PASS:
        tl.debug_barrier()  # x is read by other threads than wrote it
        for col in range(0, keys, BLOCK_N):
            x = tl.load(X + col + lanes, mask=(lanes < BLOCK_N) & (col + lanes < keys), other=float("-inf"))  # [b]
            v = load_block(V, col, 0, keys, HEAD_DIM, stride_vn, stride_vd, BLOCK_N, HEAD_DIM)  # [b, d]
            o += tl.sum((tl.exp(x - m) / denominator)[:, None] * v.to(tl.float32), 0)
    o_row = O + batch * stride_ob + head * stride_oh + row * stride_on
    tl.store(o_row + dims * stride_od, o.to(O.dtype.element_ty), mask=inside)


def rowwise(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_n: int = 64,
    one_pass: bool = True,
) -> torch.Tensor:
    """Compute softmax(scale Q K^T) V row by row.

    The keys are passed once, or twice with the logits in HBM.

    q [batch, heads, seq_len, head_dim], k and v [batch, heads, kv_len, head_dim]: float16, bfloat16 or float32, any strides.
    causal aligns the last query with the last key. Keys in tiles of block_n. Returns o like q.
    Extra memory in two passes: N N_k logits of float32 per head.
    Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    name = "flash_rowwise" if one_pass else "online_rowwise"
    shape = check_attention(name, q, k, v, scale=scale, block_m=1, block_n=block_n)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    x = o
    if not one_pass:
        x = torch.empty((shape.batch, shape.heads, shape.seq_len, shape.kv_len), dtype=torch.float32, device=q.device)
    with launching(name, q.device):
        rowwise_kernel[(shape.seq_len, shape.heads, shape.batch)](
            q, k, v, x, o, *q.stride(), *k.stride(), *v.stride(), *o.stride(), shape.seq_len, shape.kv_len, shape.scale,
            CAUSAL=causal, HEAD_DIM=shape.head_dim, BLOCK_N=block_n, ONE_PASS=one_pass, num_warps=4,
        )  # fmt: skip
    return o
