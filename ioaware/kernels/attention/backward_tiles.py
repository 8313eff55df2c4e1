"""Tiles of the gradients that FlashAttention's backward passes share: P and dS recomputed from Q, K, V and row statistics."""

from __future__ import annotations

import triton
import triton.language as tl

from ioaware.kernels.attention.tiles import block_mask, store_block, tile_side


@triton.jit
def visible_pairs(row, col, seq_len, kv_len, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Return True for the pairs of a tile [B_r, B_c] that exist and whose query sees its key."""
    pairs = block_mask(row, col, seq_len, kv_len, BLOCK_M, BLOCK_N)
    if CAUSAL:
        rows = row + tl.arange(0, tile_side(BLOCK_M))
        cols = col + tl.arange(0, tile_side(BLOCK_N))
        pairs &= cols[None, :] <= rows[:, None] + (kv_len - seq_len)
    return pairs


@triton.jit
def probabilities(q, k, lse, pairs, scale):
    """Return P = exp(scale Q K^T - lse) of a tile [B_r, B_c], zero where `pairs` is False."""
    s = tl.dot(q, k.T, input_precision="ieee") * scale
    return tl.where(pairs, tl.exp(s - lse[:, None]), 0.0)


@triton.jit
def score_gradients(p, do, v, delta):
    """Return dS = P * (dO V^T - D) of a tile [B_r, B_c]."""
    return p * (tl.dot(do, v.T, input_precision="ieee") - delta[:, None])


@triton.jit
def first_row_block(col, seq_len, kv_len, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr):
    """Return the first row block with a row that sees the key at `col`."""
    first = 0
    if CAUSAL:
        first = tl.maximum(col - (kv_len - seq_len), 0) // BLOCK_M
    return first


@triton.jit
def last_column_block(row, seq_len, kv_len, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Return the end of the column blocks that the last row of the block at `row` sees."""
    visible = kv_len
    if CAUSAL:
        visible = tl.maximum(tl.minimum(row + BLOCK_M, seq_len) + (kv_len - seq_len), 0)
    return tl.cdiv(visible, BLOCK_N)


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
