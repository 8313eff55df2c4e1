"""The design of Triton's tutorial 06, backward.

Each program computes dK and dV of a column block, then dQ of a row block.

FlashAttention-2's backward (arXiv 2307.08691, Algorithm 2) without atomics: S is computed twice, 7 matmuls instead of 5.
K arrives multiplied by scale * log2(e), so that P = exp2(Q K^T - L). Blocks are the tutorial's; of its warps and stages
(4, 5) and of (8, 3), which does not spill at head_dim 128 on Hopper, autotuning takes the faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from ioaware.bench.backends.tutorial_forward import quickly
from ioaware.kernels.attention.constants import LOG2_E

if TYPE_CHECKING:
    from torch import Tensor

DELTA_ROWS = 128


@triton.jit
def tutorial_delta_kernel(O, dO, Delta, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr):
    """Compute rowsum(dO O). Grid (rows of all heads / BLOCK_M)."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    at = rows[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    tl.store(Delta + rows, tl.sum(tl.load(O + at).to(tl.float32) * tl.load(dO + at).to(tl.float32), 1))


@triton.jit
def visit_rows(dk, dv, k, v, Q, dO, Lse, Delta, cols, lo, hi, MASK: tl.constexpr, BLOCK: tl.constexpr, HEAD_DIM: tl.constexpr):
    """Return dK and dV after query rows lo to hi; P^T and dS^T are [columns, BLOCK]."""
    lanes = tl.arange(0, HEAD_DIM)
    for row in tl.range(lo, hi, BLOCK):
        rows = row + tl.arange(0, BLOCK)
        at = rows[:, None] * HEAD_DIM + lanes[None, :]
        q = tl.load(Q + at)  # [BLOCK, d]
        p = tl.math.exp2(tl.dot(k, q.T) - tl.load(Lse + rows)[None, :])
        if MASK:
            p = tl.where(rows[None, :] >= cols[:, None], p, 0.0)
        do = tl.load(dO + at)  # [BLOCK, d]
        dv = tl.dot(p.to(do.dtype), do, dv)
        ds = p * (tl.dot(v, do.T) - tl.load(Delta + rows)[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk)
    return dk, dv


@triton.jit
def visit_columns(dq, q, do, lse, delta, K, V, rows, lo, hi, MASK: tl.constexpr, BLOCK: tl.constexpr, HEAD_DIM: tl.constexpr):
    """Return dQ after key rows lo to hi."""
    lanes = tl.arange(0, HEAD_DIM)
    for col in tl.range(lo, hi, BLOCK):
        cols = col + tl.arange(0, BLOCK)
        at = cols[:, None] * HEAD_DIM + lanes[None, :]
        k = tl.load(K + at)  # [BLOCK, d]
        v = tl.load(V + at)  # [BLOCK, d]
        p = tl.math.exp2(tl.dot(q, k.T) - lse[:, None])
        if MASK:
            p = tl.where(rows[:, None] >= cols[None, :], p, 0.0)
        ds = p * (tl.dot(do, v.T) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    return dq


@triton.autotune(
    [triton.Config({}, num_warps=4, num_stages=5), triton.Config({}, num_warps=8, num_stages=3)],
    key=["seq_len", "HEAD_DIM", "CAUSAL"],
    do_bench=quickly,
)
@triton.jit
def tutorial_backward_kernel(
    Q, K, V, dO, dQ, dK, dV, Lse, Delta, seq_len, scale,
    HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, WIDE: tl.constexpr, NARROW: tl.constexpr,
):  # fmt: skip
    """Column block and row block number program_id(0) of one head.

    The grid is (seq_len / WIDE, batch * heads).
    """
    place, head = tl.program_id(0) * WIDE, tl.program_id(1).to(tl.int64)
    start = head * seq_len * HEAD_DIM
    Q += start
    K += start
    V += start
    dO += start
    Lse += head * seq_len
    Delta += head * seq_len
    here = place + tl.arange(0, WIDE)
    tile = here[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]

    k, v = tl.load(K + tile), tl.load(V + tile)  # [WIDE, d]
    dk = tl.zeros([WIDE, HEAD_DIM], tl.float32)
    dv = tl.zeros([WIDE, HEAD_DIM], tl.float32)
    if CAUSAL:
        dk, dv = visit_rows(dk, dv, k, v, Q, dO, Lse, Delta, here, place, place + WIDE, True, NARROW // 2, HEAD_DIM)
        dk, dv = visit_rows(dk, dv, k, v, Q, dO, Lse, Delta, here, place + WIDE, seq_len, False, NARROW, HEAD_DIM)
    else:
        dk, dv = visit_rows(dk, dv, k, v, Q, dO, Lse, Delta, here, 0, seq_len, False, NARROW, HEAD_DIM)
    tl.store(dV + start + tile, dv.to(v.dtype))
    tl.store(dK + start + tile, (dk * scale).to(k.dtype))

    q, do = tl.load(Q + tile), tl.load(dO + tile)  # [WIDE, d]
    lse, delta = tl.load(Lse + here), tl.load(Delta + here)
    dq = tl.zeros([WIDE, HEAD_DIM], tl.float32)
    if CAUSAL:
        dq = visit_columns(dq, q, do, lse, delta, K, V, here, place, place + WIDE, True, NARROW // 2, HEAD_DIM)
        dq = visit_columns(dq, q, do, lse, delta, K, V, here, 0, place, False, NARROW, HEAD_DIM)
    else:
        dq = visit_columns(dq, q, do, lse, delta, K, V, here, 0, seq_len, False, NARROW, HEAD_DIM)
    tl.store(dQ + start + tile, (dq * 0.6931471805599453).to(q.dtype))  # K was multiplied by scale * log2(e)


def tutorial_backward(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return dQ, dK and dV.

    All contiguous [batch, heads, seq_len, head_dim], seq_len a multiple of 128; lse in base 2.
    """
    batch, heads, seq_len, head_dim = q.shape
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    delta = torch.empty_like(lse)
    tutorial_delta_kernel[(batch * heads * seq_len // DELTA_ROWS,)](o, do, delta, HEAD_DIM=head_dim, BLOCK_M=DELTA_ROWS)
    tutorial_backward_kernel[(seq_len // 128, batch * heads)](
        q, k * (scale * LOG2_E.value), v, do, dq, dk, dv, lse, delta, seq_len, scale,
        HEAD_DIM=head_dim, CAUSAL=causal, WIDE=128, NARROW=32,
    )  # fmt: skip
    return dq, dk, dv
