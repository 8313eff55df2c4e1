"""The order in which the fused backward kernel's programs work on column blocks: which batch, head and columns a tile has.

Programs are dealt hands of some tiles, one hand each in a round; who sat first in a round sits last in the next. A hand is
a whole head    few rows: one program computes all of a head's dQ, whose sums lie in its own memory and stay in the L2
a column block  without a mask, all equally long, head by head
a run of rows   where these leave many programs without one in the last round: the rows of its column blocks, laid end to end,
                are divided evenly, so that a program has a part of one block or of two (Osama et al. 2023, arXiv 2301.03598)
a pair          of causal column blocks, the longest of a head with its shortest and so on, all hands equally long; the last
                heads' blocks are hands by themselves, the longest first, and even out what the pairs have left uneven
(docs/hopper-attention.md has what each was worth, and entries 6, 11 and 16 the same thoughts for row blocks).
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from ioaware.kernels.attention.hopper.column_blocks import first_that_sees
from ioaware.kernels.attention.hopper.tile_scheduler import hand_of, seat_of

BLOCK_N = gl.constexpr(128)
"""Keys of a tile."""


@gluon.jit
def hands_of_program(sizes, deal, CAUSAL: gl.constexpr, WHOLE: gl.constexpr, SPLIT: gl.constexpr):
    """How many hands this program is dealt. sizes: seq_len, kv_len, heads, batch_heads, the latter two of keys; deal: row
    blocks and column blocks of a head, pairs of the latter, of how many heads they are dealt in pairs where causal and of
    how many not, how many rounds come before the last one, how many row blocks its tiles have, and how many a run has."""
    _, _, _, batch_heads = sizes
    _, blocks, pairs, paired, others, before, _, _ = deal
    if SPLIT:
        return before + 1
    if WHOLE:
        hands = batch_heads
    elif CAUSAL:
        hands = pairs * paired + blocks * others
    else:
        hands = blocks * batch_heads
    rounds = hands // gl.num_programs(0)
    left = hands - rounds * gl.num_programs(0)
    return rounds + (seat_of(rounds) < left).to(gl.int32)


@gluon.jit
def run_of(zero, deal):
    """This program's run in the last round: its first and its end in the row blocks of all of that round's tiles."""
    _, _, _, _, _, _, rest, share = deal
    first = (gl.program_id(0) + zero) * share
    return gl.minimum(first, rest), gl.minimum(first + share, rest)


@gluon.jit
def tiles_of_hand(r, deal, CAUSAL: gl.constexpr, WHOLE: gl.constexpr, SPLIT: gl.constexpr):
    """How many tiles this program's hand of the r-th round has."""
    row_blocks, blocks, pairs, paired, _, before, _, _ = deal
    if SPLIT:
        tiles = 1
        if r == before:
            first, end = run_of(0, deal)
            tiles = gl.cdiv(end, row_blocks) - first // row_blocks
        return tiles
    if WHOLE:
        return blocks
    if CAUSAL:
        return 1 + (hand_of(r) < pairs * paired).to(gl.int32)
    return 1


@gluon.jit
def rows_of(r, part, col, sizes, deal, CAUSAL: gl.constexpr, MASKED: gl.constexpr, SPLIT: gl.constexpr, BLOCK_M: gl.constexpr):
    """The first and the end of the row blocks that a tile of this program's hand of the r-th round, which begins at col, works
    on in each head of its group."""
    row_blocks, _, _, _, _, before, _, _ = deal
    first, end = first_that_sees(col, row_blocks, sizes, CAUSAL, MASKED, BLOCK_M), row_blocks
    if SPLIT:
        if r == before:
            first, end = run_of(0, deal)
            tile = tile_of_run(part, 0, deal) * row_blocks
            first, end = gl.maximum(first - tile, 0), gl.minimum(end - tile, row_blocks)
    return first, end


@gluon.jit
def tile_of_run(part, zero, deal):
    """The number of a tile of this program's run, of those of the last round."""
    first, _ = run_of(zero, deal)
    return first // deal[0] + part


@gluon.jit
def place_of(r, part, zero, sizes, deal, CAUSAL: gl.constexpr, WHOLE: gl.constexpr, SPLIT: gl.constexpr):
    """Batch, key head and first column of a tile of this program's hand of the r-th round. What divisions need of their
    divisors is not kept in registers from one place to the next if zero is an unknown_zero."""
    _, _, heads, _ = sizes
    _, blocks, pairs, paired, others, before, _, _ = deal
    hand = hand_of(r + zero)
    if WHOLE:
        batch_head = hand
        block = part
    elif CAUSAL:
        batch_head = hand // pairs
        block = hand - batch_head * pairs
        if part == 1:  # of an odd number, the middle one is followed by one beyond the last column
            other = blocks - 1 - block
            block = other if other > block else blocks
        by_length = hand - pairs * paired
        if by_length >= 0:
            block = by_length // others
            batch_head = paired + by_length - block * others
    else:
        if SPLIT:
            if r == before:
                hand = before * gl.num_programs(0) + tile_of_run(part, zero, deal)
        batch_head = hand // blocks
        block = hand - batch_head * blocks
    batch = batch_head // heads
    return batch, batch_head - batch * heads, block * BLOCK_N
