"""Schedule the tiles of the fused backward kernel over column blocks.

It gives each tile its batch, head and columns.

A persistent CTA takes one work item per round, in serpentine order. A work item has one or more tiles:
whole head      with few rows: one CTA computes all of a head's dQ, whose accumulator is its own and stays in the L2
column block    without a mask: all cost the same, head by head
row range       where column blocks leave many CTAs idle in the last round: the row blocks of its column blocks, concatenated,
                are divided evenly, into parts of one or two blocks (Stream-K, Osama et al. 2023, arXiv 2301.03598)
pair            causal: the longest column block of a head with its shortest, and so on, all pairs equally long; the last heads'
                blocks are single items, the longest first (LPT), to balance what the pairs leave uneven
docs/lab-notes/hopper-attention.md has the speed-up of each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from ioaware.kernels.attention.hopper.backward_pass.column_blocks import first_visible_row_block
from ioaware.kernels.attention.hopper.tile_scheduler import cta_index, work_item

BLOCK_N = gl.constexpr(128)
"""Keys of a tile."""


class Schedule(NamedTuple):
    """Numbers of the schedule, all int32 (backward_config.BackwardTiling.schedule)."""

    row_blocks: Any
    """Row blocks of a head."""
    blocks: Any
    """Column blocks of a head."""
    pairs: Any
    """Pairs of column blocks of a head."""
    paired: Any
    """Key heads with paired column blocks."""
    others: Any
    """Key heads with column blocks in LPT order."""
    before: Any
    """Rounds before the one that is divided by rows."""
    rest: Any
    """Row blocks of all tiles of the divided round."""
    share: Any
    """Row blocks of one CTA's range in the divided round."""


@gluon.jit
def num_work_items(sizes, schedule, CAUSAL: gl.constexpr, WHOLE: gl.constexpr, SPLIT: gl.constexpr):
    """Return how many work items this CTA has."""
    if SPLIT:
        return schedule.before + 1
    if WHOLE:
        items = sizes.batch_heads
    elif CAUSAL:
        items = schedule.pairs * schedule.paired + schedule.blocks * schedule.others
    else:
        items = schedule.blocks * sizes.batch_heads
    rounds = items // gl.num_programs(0)
    left = items - rounds * gl.num_programs(0)
    return rounds + (cta_index(rounds) < left).to(gl.int32)


@gluon.jit
def row_block_range(zero, schedule):
    """Return first and end of this CTA's range of row blocks.

    The range is in the concatenated row blocks of the divided round.
    """
    first = (gl.program_id(0) + zero) * schedule.share
    return gl.minimum(first, schedule.rest), gl.minimum(first + schedule.share, schedule.rest)


@gluon.jit
def num_tiles(r, schedule, CAUSAL: gl.constexpr, WHOLE: gl.constexpr, SPLIT: gl.constexpr):
    """Return how many tiles this CTA's work item of round r has."""
    if SPLIT:
        tiles = 1
        if r == schedule.before:
            first, end = row_block_range(0, schedule)
            tiles = gl.cdiv(end, schedule.row_blocks) - first // schedule.row_blocks
        return tiles
    if WHOLE:
        return schedule.blocks
    if CAUSAL:
        return 1 + (work_item(r) < schedule.pairs * schedule.paired).to(gl.int32)
    return 1


@gluon.jit
def row_blocks_of_tile(
    r, part, col, sizes, schedule, CAUSAL: gl.constexpr, MASKED: gl.constexpr, SPLIT: gl.constexpr, BLOCK_M: gl.constexpr
):
    """Return first and end of the row blocks of a tile that begins at column col.

    They are counted per head of the group.
    """
    first, end = first_visible_row_block(col, schedule.row_blocks, sizes, CAUSAL, MASKED, BLOCK_M), schedule.row_blocks
    if SPLIT:
        if r == schedule.before:
            first, end = row_block_range(0, schedule)
            tile = split_tile(part, 0, schedule) * schedule.row_blocks
            first, end = gl.maximum(first - tile, 0), gl.minimum(end - tile, schedule.row_blocks)
    return first, end


@gluon.jit
def split_tile(part, zero, schedule):
    """Return the number, within the divided round, of tile `part` of this CTA's range."""
    first, _ = row_block_range(zero, schedule)
    return first // schedule.row_blocks + part


@gluon.jit
def tile_coordinates(r, part, zero, sizes, schedule, CAUSAL: gl.constexpr, WHOLE: gl.constexpr, SPLIT: gl.constexpr):
    """Return batch, key head and first column of a tile.

    It is tile `part` of this CTA's work item of round r.

    With an opaque_zero, reciprocals of the divisors are recomputed instead of being kept in registers.
    """
    item = work_item(r + zero)
    if WHOLE:
        batch_head = item
        block = part
    elif CAUSAL:
        batch_head = item // schedule.pairs
        block = item - batch_head * schedule.pairs
        if part == 1:  # with an odd number of blocks, the middle one is paired with one beyond the last column
            other = schedule.blocks - 1 - block
            block = other if other > block else schedule.blocks
        unpaired = item - schedule.pairs * schedule.paired
        if unpaired >= 0:
            block = unpaired // schedule.others
            batch_head = schedule.paired + unpaired - block * schedule.others
    else:
        if SPLIT:
            if r == schedule.before:
                item = schedule.before * gl.num_programs(0) + split_tile(part, zero, schedule)
        batch_head = item // schedule.blocks
        block = item - batch_head * schedule.blocks
    batch = batch_head // sizes.heads
    return batch, batch_head - batch * sizes.heads, block * BLOCK_N
