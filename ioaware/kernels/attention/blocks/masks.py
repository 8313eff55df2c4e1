"""Return visible pairs of a query and a key, and tiles under a causal mask.

The last query and the last key align.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.tiles import block_mask, tile_side


@triton.jit
def visible_pairs(row, col, seq_len, kv_len, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Return True for the pairs of a tile that are inside and visible.

    The tile is [B_r, B_c]; a pair is visible where the query sees the key.
    """
    pairs = block_mask(row, col, seq_len, kv_len, BLOCK_M, BLOCK_N)
    if CAUSAL:
        rows = row + tl.arange(0, tile_side(BLOCK_M))
        cols = col + tl.arange(0, tile_side(BLOCK_N))
        pairs &= cols[None, :] <= rows[:, None] + (kv_len - seq_len)
    return pairs


@triton.jit
def first_row_block(col, seq_len, kv_len, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr):
    """Return the first row block with a row that sees the key at `col`."""
    first = 0
    if CAUSAL:
        first = tl.maximum(col - (kv_len - seq_len), 0) // BLOCK_M
    return first


@triton.jit
def last_column_block(row, seq_len, kv_len, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Return the end of the column blocks that the last row of the block sees.

    The block begins at `row`.
    """
    visible = kv_len
    if CAUSAL:
        visible = tl.maximum(tl.minimum(row + BLOCK_M, seq_len) + (kv_len - seq_len), 0)
    return tl.cdiv(visible, BLOCK_N)
