"""The order in which the Hopper kernels' programs work on row blocks: which batch, head and rows a tile has.

Programs are dealt hands of one tile or two, one hand each in a round; who sat first in a round sits last in the next. Without a
mask all row blocks are equally long, and hands are the row blocks, head by head. Causal ones differ in length:
in pairs     a hand is the longest of a head with its shortest and so on, all hands equally long. Programs end within a pair of
             one another, and only so many heads are read at a time that their K and V stay in the L2.
by length    a hand is one row block, the longest of some heads first; who gets the longer ones of a round gets the shorter ones
             of the next. Programs end within a short tile of one another, but K and V of all these heads are read at a time.
The forward kernel deals the first heads in pairs and the last ones by length. Sums over all programs are the same in any order.
A place comes from its number by divisions without anything that is carried from tile to tile, so that loads and stores have
a formula; and the divisions by multiplication, as two of them came to 580 cycles a tile (docs/hopper-attention.md).
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def inverse_of(d):
    """hopper_plan's, for kernels that are not given it."""
    return 0x3FFFFFFF // d + 1


@gluon.jit
def divided(n, inverse):
    """n // d for inverse = (2^30 - 1) // d + 1, as long as n (d - 1) < 2^30. A division is a chain of some thirty instructions,
    and each tile needs two."""
    return gl.umulhi(4 * n, inverse)


@gluon.jit
def run_of(seq_len, CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr):
    """Tiles in turn and pairs are numbered in runs of so many: a head's row blocks, a head's pairs."""
    blocks = gl.cdiv(seq_len, BLOCK_M)
    if CAUSAL:
        return gl.cdiv(blocks, 2)
    return blocks


@gluon.jit
def hands_in_pairs(sizes, BLOCK_M: gl.constexpr):
    """How many hands are pairs: the first ones."""
    return run_of(sizes[0], True, BLOCK_M) * sizes[6]


@gluon.jit
def hands_of_program(sizes, CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr):
    """How many hands this program is dealt. sizes: seq_len, kv_len, heads, batch_heads, the inverses of run_of and of heads,
    how many heads are dealt in pairs, the inverse of how many are not."""
    seq_len, _, _, batch_heads, _, _, paired, _ = sizes
    hands = gl.cdiv(seq_len, BLOCK_M) * batch_heads
    if CAUSAL:
        hands = hands_in_pairs(sizes, BLOCK_M) + gl.cdiv(seq_len, BLOCK_M) * (batch_heads - paired)
    rounds = hands // gl.num_programs(0)
    left = hands - rounds * gl.num_programs(0)
    return rounds + (seat_of(rounds) < left).to(gl.int32)


@gluon.jit
def seat_of(r):
    """Where this program sits in the r-th round of dealing to and fro."""
    return gl.program_id(0) if r % 2 == 0 else gl.num_programs(0) - 1 - gl.program_id(0)


@gluon.jit
def hand_of(r):
    """The number of this program's hand in the r-th round."""
    return r * gl.num_programs(0) + seat_of(r)


@gluon.jit
def tiles_of_hand(hand, sizes, CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr):
    """One or two."""
    if CAUSAL:
        return 1 + (hand < hands_in_pairs(sizes, BLOCK_M)).to(gl.int32)
    return 1


@gluon.jit
def place_of(hand, second, sizes, CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr):
    """Batch, head and first row of a hand's first tile (second = 0) or second one (1); sizes as of hands_of_program."""
    seq_len, _, heads, batch_heads, inverse, heads_inverse, paired, others_inverse = sizes
    blocks = gl.cdiv(seq_len, BLOCK_M)
    batch_head = divided(hand, inverse)
    block = hand - batch_head * run_of(seq_len, CAUSAL, BLOCK_M)
    if CAUSAL:
        block = paired_block(block, second, blocks)
        by_length = hand - hands_in_pairs(sizes, BLOCK_M)
        if by_length >= 0:
            shorter = divided(by_length, others_inverse)
            batch_head = paired + by_length - shorter * (batch_heads - paired)
            block = blocks - 1 - shorter
    batch = divided(batch_head, heads_inverse)
    return batch, batch_head - batch * heads, block * BLOCK_M


@gluon.jit
def paired_block(pair, second, blocks):
    """The row block in a head's pair. The longest of an odd number of blocks is beside one beyond the last row."""
    block = blocks - 1 - pair
    if second == 1:
        block = pair - blocks % 2
        block = block if block >= 0 else blocks
    return block
