"""Column blocks of the Hopper backward kernels: which ones a program works on, which rows see them, and the mask between."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

SIDE = gl.constexpr(64)
"""Rows of one wgmma: the keys of a consumer, and the rows of a piece of dQ."""
NEVER = gl.constexpr(1 << 30)
"""A row number beyond all."""


@gluon.jit
def column_tiles(sizes, CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr):
    """How many column blocks this program works on: they or, where causal, pairs of them are dealt out in turn."""
    _, kv_len, _, batch_heads = sizes
    blocks = gl.cdiv(kv_len, BLOCK_N)
    if CAUSAL:
        hands = gl.cdiv(blocks, 2) * batch_heads
        return gl.cdiv(hands - gl.program_id(0), gl.num_programs(0)) * 2
    return gl.cdiv(blocks * batch_heads - gl.program_id(0), gl.num_programs(0))


@gluon.jit
def column_tile(t, sizes, CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr):
    """Batch, key head and first column of this program's t-th block. Causal blocks come in pairs that are equally long
    together, the longest with the shortest; of an odd number, the middle one is followed by one beyond the last column."""
    _, kv_len, heads, _ = sizes
    blocks = gl.cdiv(kv_len, BLOCK_N)
    if CAUSAL:
        pairs = gl.cdiv(blocks, 2)
        hand = (t // 2) * gl.num_programs(0) + gl.program_id(0)
        batch_head = hand // pairs
        block = hand - batch_head * pairs
        if t % 2 == 1:
            other = blocks - 1 - block
            block = other if other > block else blocks
    else:
        tile = t * gl.num_programs(0) + gl.program_id(0)
        batch_head = tile // blocks
        block = tile - batch_head * blocks
    batch = batch_head // heads
    return batch, batch_head - batch * heads, block * BLOCK_N


@gluon.jit
def rows_that_see(col, sizes, CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr):
    """The row blocks from which a column block beginning at col is seen, as their first and the end; at least one."""
    end = gl.cdiv(sizes[0], BLOCK_M)
    return first_that_sees(col, end, sizes, CAUSAL, 2, BLOCK_M), end


@gluon.jit
def first_that_sees(col, end, sizes, CAUSAL: gl.constexpr, MASKED: gl.constexpr, BLOCK_M: gl.constexpr):
    """The first of a head's `end` row blocks from which a column block beginning at col is seen; or the last one. MASKED is 1
    where there are as many rows as keys and no column block beyond."""
    seq_len, kv_len, _, _ = sizes
    if CAUSAL and MASKED == 1:
        return col // BLOCK_M
    if CAUSAL:
        return gl.minimum(gl.maximum(col - (kv_len - seq_len), 0) // BLOCK_M + 1, end) - 1
    return 0


@gluon.jit
def masked_columns(s, key, row, sizes, CAUSAL: gl.constexpr):
    """-inf where a row does not see a key, in S^T of the keys from `key` on and the rows from `row` on. A block that is seen in
    full costs a comparison."""
    seq_len, kv_len, _, _ = sizes
    S: gl.constexpr = s.type.layout
    partly = key + s.shape[0] > kv_len
    if CAUSAL:
        partly |= row + (kv_len - seq_len) < key + s.shape[0] - 1
    if partly:
        keys = key + gl.arange(0, s.shape[0], gl.SliceLayout(1, S))
        lanes = gl.arange(0, s.shape[1], gl.SliceLayout(0, S))
        first = keys - (kv_len - seq_len) - row if CAUSAL else keys * 0
        first = gl.where(keys < kv_len, first, NEVER)  # the first of these rows that sees each key
        # A thread holds the columns 8 i + {0, 1} + its even number below 8. With that number on the right, the left is a
        # constant of each register, and no registers are spent on row numbers.
        s = gl.where((lanes & -7)[None, :] >= first[:, None] - (lanes & 6)[None, :], s, float("-inf"))
    return s
