"""Compute LayerNorm of the rows of a tile, and its gradient, on chip.

There are no weights.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.tiles import load_block, tile_side

EPSILON = tl.constexpr(1e-6)


@triton.jit
def normalised(x, HEAD_DIM: tl.constexpr):
    """Return x^ = (x - mean) / sqrt(var + epsilon) of each row [B, d].

    It is in float32; 1 / sqrt(var + epsilon) [B] comes with it.
    """
    inside = (tl.arange(0, tile_side(HEAD_DIM)) < HEAD_DIM)[None, :]
    x = x.to(tl.float32)
    x = tl.where(inside, x - (tl.sum(x, 1) / HEAD_DIM)[:, None], 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(x * x, 1) / HEAD_DIM + EPSILON)
    return x * inverse[:, None], inverse


@triton.jit
def load_normalised(X, row, num_rows, stride_n, stride_d, HEAD_DIM: tl.constexpr, BLOCK: tl.constexpr):
    """Load a row block and return its LayerNorm in X's dtype."""
    y, _, _ = load_with_statistics(X, row, num_rows, stride_n, stride_d, HEAD_DIM, BLOCK)
    return y


@triton.jit
def load_with_statistics(X, row, num_rows, stride_n, stride_d, HEAD_DIM: tl.constexpr, BLOCK: tl.constexpr):
    """Load a row block and return its LayerNorm.

    It comes in X's dtype and in float32, with 1 / sqrt(var + epsilon).
    """
    x = load_block(X, row, 0, num_rows, HEAD_DIM, stride_n, stride_d, BLOCK, HEAD_DIM)  # [B, d]
    y, inverse = normalised(x, HEAD_DIM)
    return y.to(x.dtype), y, inverse


@triton.jit
def layer_norm_gradient(dy, y, inverse, HEAD_DIM: tl.constexpr):
    """Return the gradient of LayerNorm for each row [B, d].

    dX = (dY - mean(dY) - y mean(dY y)) / sqrt(var + epsilon).
    """
    inside = (tl.arange(0, tile_side(HEAD_DIM)) < HEAD_DIM)[None, :]
    mean = tl.sum(dy, 1) / HEAD_DIM
    projection = tl.sum(dy * y, 1) / HEAD_DIM
    return tl.where(inside, (dy - mean[:, None] - y * projection[:, None]) * inverse[:, None], 0.0)
