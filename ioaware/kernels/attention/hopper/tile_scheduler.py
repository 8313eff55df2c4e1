"""Schedule the tiles of the Hopper kernels over query rows.

It gives each work item its batch, head and rows.

A persistent CTA takes one work item per round, in serpentine order: the first CTA of a round is the last of the next.
Without a mask all row blocks cost the same, and work items are the row blocks, head by head. Causal row blocks differ in cost:
paired   A work item is the longest row block of a head with its shortest, and so on; all items cost the same. CTAs finish
         within one pair of each other, and few heads are read at a time, so that their K and V stay in the L2.
LPT      A work item is one row block, the longest of several heads first (longest processing time first). CTAs finish within
         a short tile of each other, but K and V of all these heads are read at a time.
The forward kernel pairs the first heads and orders the last ones by LPT. Totals over all programs do not depend on the order.
Coordinates come from the item number by division, with nothing carried from tile to tile, so that loads and stores have a
closed formula. The divisions are multiplications by a reciprocal (docs/lab-notes/hopper-attention.md has their cost).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


class Sizes(NamedTuple):
    """Sizes of the problem and numbers of the schedule, all int32."""

    seq_len: Any
    kv_len: Any
    heads: Any
    batch_heads: Any
    inverse: Any
    """inverse_of(items_per_head)."""
    heads_inverse: Any
    paired: Any
    """Heads with paired row blocks."""
    others_inverse: Any
    """inverse_of the number of other heads."""


@gluon.jit
def inverse_of(d):
    """Return the reciprocal that `divide` takes.

    forward_config.inverse_of computes the same on the host.
    """
    return 0x3FFFFFFF // d + 1


@gluon.jit
def divide(n, inverse):
    """Return n // d for inverse = inverse_of(d), exact while n (d - 1) < 2^30.

    Why: an integer division is some thirty dependent instructions, and each tile needs two.
    """
    return gl.umulhi(4 * n, inverse)


@gluon.jit
def items_per_head(seq_len, CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr):
    """Return how many row blocks a head has or, where causal, how many pairs of them."""
    blocks = gl.cdiv(seq_len, BLOCK_M)
    if CAUSAL:
        return gl.cdiv(blocks, 2)
    return blocks


@gluon.jit
def num_paired_items(sizes, BLOCK_M: gl.constexpr):
    """Return how many work items are pairs; they come first."""
    return items_per_head(sizes.seq_len, True, BLOCK_M) * sizes.paired


@gluon.jit
def num_work_items(sizes, CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr):
    """Return how many work items this CTA has."""
    items = gl.cdiv(sizes.seq_len, BLOCK_M) * sizes.batch_heads
    if CAUSAL:
        items = num_paired_items(sizes, BLOCK_M) + gl.cdiv(sizes.seq_len, BLOCK_M) * (sizes.batch_heads - sizes.paired)
    rounds = items // gl.num_programs(0)
    left = items - rounds * gl.num_programs(0)
    return rounds + (cta_index(rounds) < left).to(gl.int32)


@gluon.jit
def cta_index(r):
    """Return this CTA's position in round r of the serpentine order."""
    return gl.program_id(0) if r % 2 == 0 else gl.num_programs(0) - 1 - gl.program_id(0)


@gluon.jit
def work_item(r):
    """Return the number of this CTA's work item in round r."""
    return r * gl.num_programs(0) + cta_index(r)


@gluon.jit
def num_tiles(item, sizes, CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr):
    """Return how many tiles a work item has: 1 or 2."""
    if CAUSAL:
        return 1 + (item < num_paired_items(sizes, BLOCK_M)).to(gl.int32)
    return 1


@gluon.jit
def tile_coordinates(item, second, sizes, CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr):
    """Return batch, head and first row of a tile of a work item.

    It is the first tile (second = 0) or the second (1).
    """
    blocks = gl.cdiv(sizes.seq_len, BLOCK_M)
    batch_head = divide(item, sizes.inverse)
    block = item - batch_head * items_per_head(sizes.seq_len, CAUSAL, BLOCK_M)
    if CAUSAL:
        block = paired_block(block, second, blocks)
        unpaired = item - num_paired_items(sizes, BLOCK_M)
        if unpaired >= 0:
            shorter = divide(unpaired, sizes.others_inverse)
            batch_head = sizes.paired + unpaired - shorter * (sizes.batch_heads - sizes.paired)
            block = blocks - 1 - shorter
    batch = divide(batch_head, sizes.heads_inverse)
    return batch, batch_head - batch * sizes.heads, block * BLOCK_M


@gluon.jit
def paired_block(pair, second, blocks):
    """Return the row block of a pair.

    With an odd number of blocks the longest is paired with one beyond the last row.
    """
    block = blocks - 1 - pair
    if second == 1:
        block = pair - blocks % 2
        block = block if block >= 0 else blocks
    return block
