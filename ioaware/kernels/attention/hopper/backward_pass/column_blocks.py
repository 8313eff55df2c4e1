"""Assign column blocks of the Hopper backward kernels to CTAs.

Visible rows and the mask are here, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

SIDE = gl.constexpr(64)
"""Rows of one wgmma.

These are the keys of a consumer, and the rows of a piece of dQ's accumulator.
"""
NEVER = gl.constexpr(1 << 30)
"""A row number larger than any seq_len."""


class Sizes(NamedTuple):
    """Sizes of the problem, all int32; heads and batch_heads count key heads."""

    seq_len: Any
    kv_len: Any
    heads: Any
    batch_heads: Any


@gluon.jit
def num_column_tiles(sizes, CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr):
    """Return how many column blocks this CTA has.

    Where causal, pairs of them are assigned in turn.
    """
    blocks = gl.cdiv(sizes.kv_len, BLOCK_N)
    if CAUSAL:
        items = gl.cdiv(blocks, 2) * sizes.batch_heads
        return gl.cdiv(items - gl.program_id(0), gl.num_programs(0)) * 2
    return gl.cdiv(blocks * sizes.batch_heads - gl.program_id(0), gl.num_programs(0))


@gluon.jit
def column_tile(t, sizes, CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr):
    """Return batch, key head and first column of this CTA's t-th block.

    Causal blocks come in pairs of equal total length, the longest with the shortest. With an odd number of blocks, the middle
    one is paired with one beyond the last column.
    """
    blocks = gl.cdiv(sizes.kv_len, BLOCK_N)
    if CAUSAL:
        pairs = gl.cdiv(blocks, 2)
        item = (t // 2) * gl.num_programs(0) + gl.program_id(0)
        batch_head = item // pairs
        block = item - batch_head * pairs
        if t % 2 == 1:
            other = blocks - 1 - block
            block = other if other > block else blocks
    else:
        tile = t * gl.num_programs(0) + gl.program_id(0)
        batch_head = tile // blocks
        block = tile - batch_head * blocks
    batch = batch_head // sizes.heads
    return batch, batch_head - batch * sizes.heads, block * BLOCK_N


@gluon.jit
def visible_row_blocks(col, sizes, CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr):
    """Return first and end of the row blocks that see a column block beginning at col.

    At least one.
    """
    end = gl.cdiv(sizes.seq_len, BLOCK_M)
    return first_visible_row_block(col, end, sizes, CAUSAL, 2, BLOCK_M), end


@gluon.jit
def first_visible_row_block(col, end, sizes, CAUSAL: gl.constexpr, MASKED: gl.constexpr, BLOCK_M: gl.constexpr):
    """Return the first row block that sees a column block beginning at col.

    It is the last of the head's `end` row blocks where none does.

    MASKED is 1 where there are as many rows as keys and no column block beyond the last key.
    """
    if CAUSAL and MASKED == 1:
        return col // BLOCK_M
    if CAUSAL:
        return gl.minimum(gl.maximum(col - (sizes.kv_len - sizes.seq_len), 0) // BLOCK_M + 1, end) - 1
    return 0


@gluon.jit
def apply_mask_transposed(s, key, row, sizes, CAUSAL: gl.constexpr):
    """Set masked scores of S^T to -inf.

    Keys begin at `key`, rows at `row`.

    A block that needs no mask costs one comparison.
    """
    S: gl.constexpr = s.type.layout
    partly = key + s.shape[0] > sizes.kv_len
    if CAUSAL:
        partly |= row + (sizes.kv_len - sizes.seq_len) < key + s.shape[0] - 1
    if partly:
        keys = key + gl.arange(0, s.shape[0], gl.SliceLayout(1, S))
        lanes = gl.arange(0, s.shape[1], gl.SliceLayout(0, S))
        first = keys - (sizes.kv_len - sizes.seq_len) - row if CAUSAL else keys * 0
        first = gl.where(keys < sizes.kv_len, first, NEVER)  # the first of these rows that sees each key
        # A thread holds the columns 8 i + {0, 1} + its even number below 8. With that number on the right, the left is a
        # constant of each register, and no registers are spent on row numbers.
        s = gl.where((lanes & -7)[None, :] >= first[:, None] - (lanes & 6)[None, :], s, float("-inf"))
    return s
