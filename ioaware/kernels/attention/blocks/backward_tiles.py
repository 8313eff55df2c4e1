"""Compute the tiles that FlashAttention's backward passes share.

They are P and dS, recomputed from Q, K, V and row statistics.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.tiles import store_block, tile_side


@triton.jit
def probabilities(q, k, lse, pairs, scale):
    """Return P = exp(scale Q K^T - lse) of a tile [B_r, B_c].

    It is zero where `pairs` is False.
    """
    s = tl.dot(q, k.T, input_precision="ieee") * scale
    return tl.where(pairs, tl.exp(s - lse[:, None]), 0.0)


@triton.jit
def score_gradients(p, do, v, delta):
    """Return dS = P * (dO V^T - D) of a tile [B_r, B_c]."""
    return p * (tl.dot(do, v.T, input_precision="ieee") - delta[:, None])


@triton.jit
def load_rows(X, row, seq_len, BLOCK_M: tl.constexpr, other: tl.constexpr = 0.0):
    """Load one number for each row of the block at `row`, `other` beyond it."""
    lanes = tl.arange(0, tile_side(BLOCK_M))
    return tl.load(X + row + lanes, mask=(lanes < BLOCK_M) & (row + lanes < seq_len), other=other)


@triton.jit
def zero_block(
    X, stride_b, stride_h, stride_n, stride_d, num_rows, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr
):  # fmt: skip
    """Store zeros to row block program_id(0) of this program's head."""
    X += tl.program_id(2).to(tl.int64) * stride_b + tl.program_id(1).to(tl.int64) * stride_h
    zeros = tl.zeros([tile_side(BLOCK_M), tile_side(HEAD_DIM)], tl.float32)
    store_block(zeros, X, tl.program_id(0) * BLOCK_M, 0, num_rows, HEAD_DIM, stride_n, stride_d, BLOCK_M, HEAD_DIM)
