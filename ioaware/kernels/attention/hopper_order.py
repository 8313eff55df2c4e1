"""The order in which the Hopper kernel's programs work on row blocks: which batch, head and rows a program's t-th tile has.

Without a mask all row blocks are equally long, and programs take them in turn, head by head. Causal ones differ in length:
by length    the longest of all heads first; who got the longer ones of a round of dealing gets the shorter ones of the next.
             Programs end within a short tile of one another, but K and V of all heads are read at the same time.
in pairs     the longest of a head with its shortest and so on, all pairs equally long. Programs end within a pair of one
             another, and only so many heads are read at a time that their K and V stay in the L2.
A place comes from its number by divisions without anything that is carried from tile to tile, so that loads and stores have
a formula; and the divisions by multiplication, as two of them came to 580 cycles a tile (docs/hopper-attention.md).
"""

# Parameters of a Gluon function have no Python types.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportConstantRedefinition=false
# pyright: reportCallIssue=false, reportArgumentType=false, reportOperatorIssue=false
from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def divided(n, inverse):
    """n // d for inverse = (2^30 - 1) // d + 1, as long as n (d - 1) < 2^30. A division is a chain of some thirty instructions,
    and each tile needs two."""
    return gl.umulhi(4 * n, inverse)


@gluon.jit
def run_of(seq_len, batch_heads, CAUSAL: gl.constexpr, BY_LENGTH: gl.constexpr, BLOCK_M: gl.constexpr):
    """Tiles are numbered in runs of so many: the heads with a row block of one length, a head's pairs, a head's row blocks."""
    if CAUSAL and BY_LENGTH:
        return batch_heads
    blocks = gl.cdiv(seq_len, BLOCK_M)
    if CAUSAL:
        return gl.cdiv(blocks, 2)
    return blocks


@gluon.jit
def tiles_of_program(sizes, CAUSAL: gl.constexpr, BY_LENGTH: gl.constexpr, BLOCK_M: gl.constexpr):
    """How many tiles this program works on. Tiles or, in pairs, two at a time are dealt out in turn."""
    seq_len, _, _, batch_heads, _, _ = sizes
    blocks = gl.cdiv(seq_len, BLOCK_M)
    if CAUSAL and BY_LENGTH:
        rounds = blocks * batch_heads // gl.num_programs(0)
        left = blocks * batch_heads - rounds * gl.num_programs(0)
        return rounds + (seat_of(rounds) < left).to(gl.int32)
    if CAUSAL:
        hands = gl.cdiv(blocks, 2) * batch_heads
        return gl.cdiv(hands - gl.program_id(0), gl.num_programs(0)) * 2
    return gl.cdiv(blocks * batch_heads - gl.program_id(0), gl.num_programs(0))


@gluon.jit
def seat_of(t):
    """Where this program sits in the t-th round of dealing to and fro."""
    return gl.program_id(0) if t % 2 == 0 else gl.num_programs(0) - 1 - gl.program_id(0)


@gluon.jit
def place_of(t, sizes, CAUSAL: gl.constexpr, BY_LENGTH: gl.constexpr, BLOCK_M: gl.constexpr):
    """Batch, head and first row of this program's t-th tile."""
    seq_len, _, heads, batch_heads, inverse, heads_inverse = sizes
    blocks = gl.cdiv(seq_len, BLOCK_M)
    run = run_of(seq_len, batch_heads, CAUSAL, BY_LENGTH, BLOCK_M)
    if CAUSAL and BY_LENGTH:
        tile = t * gl.num_programs(0) + seat_of(t)
        shorter = divided(tile, inverse)
        batch_head = tile - shorter * run
        block = blocks - 1 - shorter
    elif CAUSAL:
        hand = (t // 2) * gl.num_programs(0) + gl.program_id(0)
        batch_head = divided(hand, inverse)
        pair = hand - batch_head * run
        block = blocks - 1 - pair
        if t % 2 == 1:
            block = pair if pair < block else blocks  # an odd number: a tile beyond the last row beside the middle one
    else:
        tile = t * gl.num_programs(0) + gl.program_id(0)
        batch_head = divided(tile, inverse)
        block = tile - batch_head * run
    batch = divided(batch_head, heads_inverse)
    return batch, batch_head - batch * heads, block * BLOCK_M
