"""The order in which the fused backward kernel's programs work on column blocks: which batch, head and columns a tile has.

Programs are dealt hands of some tiles, one hand each in a round; who sat first in a round sits last in the next. A hand is
a whole head    few rows: one program computes all of a head's dQ, whose sums lie in its own memory and stay in the L2
a column block  without a mask, all equally long, head by head
a pair          of causal column blocks, the longest of a head with its shortest and so on, all hands equally long; the last
                heads' blocks are hands by themselves, the longest first, and even out what the pairs have left uneven
(docs/hopper-attention.md has what each was worth, and entries 6, 11 and 16 the same thoughts for row blocks).
"""

# Parameters of a Gluon function have no Python types.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportConstantRedefinition=false
# pyright: reportCallIssue=false, reportArgumentType=false, reportOperatorIssue=false
from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from ioaware.kernels.attention.hopper_order import hand_of, seat_of

BLOCK_N = gl.constexpr(128)
"""Keys of a tile."""


@gluon.jit
def hands_of_program(sizes, deal, CAUSAL: gl.constexpr, WHOLE: gl.constexpr):
    """How many hands this program is dealt. sizes: seq_len, kv_len, heads, batch_heads, the latter two of keys; deal: row
    blocks and column blocks of a head, pairs of the latter, and of how many heads they are dealt in pairs where causal and of
    how many not."""
    _, _, _, batch_heads = sizes
    _, blocks, pairs, paired, others = deal
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
def tiles_of_hand(r, deal, CAUSAL: gl.constexpr, WHOLE: gl.constexpr):
    """How many tiles this program's hand of the r-th round has."""
    _, blocks, pairs, paired, _ = deal
    if WHOLE:
        return blocks
    if CAUSAL:
        return 1 + (hand_of(r) < pairs * paired).to(gl.int32)
    return 1


@gluon.jit
def place_of(r, part, zero, sizes, deal, CAUSAL: gl.constexpr, WHOLE: gl.constexpr):
    """Batch, key head and first column of a tile of this program's hand of the r-th round. What divisions need of their
    divisors is not kept in registers from one place to the next if zero is an unknown_zero."""
    _, _, heads, _ = sizes
    _, blocks, pairs, paired, others = deal
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
        batch_head = hand // blocks
        block = hand - batch_head * blocks
    batch = batch_head // heads
    return batch, batch_head - batch * heads, block * BLOCK_N
