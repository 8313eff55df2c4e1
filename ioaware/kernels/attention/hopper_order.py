"""The order in which the Hopper kernels' programs work on row blocks: which batch, head and rows a program's t-th tile has.

Without a mask all row blocks are equally long, and programs take them in turn, head by head. Causal ones differ in length:
in pairs     the longest of a head with its shortest and so on, all pairs equally long. Programs end within a pair of one
             another, and only so many heads are read at a time that their K and V stay in the L2.
by length    the longest of some heads first; who sits first in a round of dealing sits last in the next. Programs end within
             a short tile of one another, but K and V of all these heads are read at a time.
The forward kernel deals the first heads in pairs and the last ones by length, beginning with the programs that the last round
of pairs left out. Sums over all programs are the same in any order.
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
def seat_of(r):
    """Where this program sits in the r-th round of dealing to and fro."""
    return gl.program_id(0) if r % 2 == 0 else gl.num_programs(0) - 1 - gl.program_id(0)


@gluon.jit
def pairs_of_program(sizes, BLOCK_M: gl.constexpr):
    """How many pairs this program has, whether the last round of pairs gave it one, and how many it gave to all."""
    pairs = run_of(sizes[0], True, BLOCK_M) * sizes[6]
    rounds = pairs // gl.num_programs(0)
    given = pairs - rounds * gl.num_programs(0)
    last = (gl.program_id(0) < given).to(gl.int32)
    return rounds + last, last, given


@gluon.jit
def tiles_of_program(sizes, CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr):
    """How many tiles this program works on. sizes: seq_len, kv_len, heads, batch_heads, the inverses of run_of and of heads,
    how many heads are dealt in pairs, the inverse of how many are not."""
    seq_len, _, _, batch_heads, _, _, paired, _ = sizes
    blocks = gl.cdiv(seq_len, BLOCK_M)
    if CAUSAL:
        pairs, last, given = pairs_of_program(sizes, BLOCK_M)
        seats = given + blocks * (batch_heads - paired)  # who was given a pair in a round has had that seat
        rounds = seats // gl.num_programs(0)
        left = seats - rounds * gl.num_programs(0)
        return 2 * pairs + rounds + (seat_of(rounds) < left).to(gl.int32) - last
    return gl.cdiv(blocks * batch_heads - gl.program_id(0), gl.num_programs(0))


@gluon.jit
def place_of(t, sizes, CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr):
    """Batch, head and first row of this program's t-th tile; sizes as of tiles_of_program."""
    seq_len, _, heads, batch_heads, inverse, heads_inverse, paired, others_inverse = sizes
    blocks = gl.cdiv(seq_len, BLOCK_M)
    if CAUSAL:
        pairs, last, given = pairs_of_program(sizes, BLOCK_M)
        in_pairs = t < 2 * pairs
        r = t - 2 * pairs + last
        number = (t // 2) * gl.num_programs(0) + gl.program_id(0) if in_pairs else r * gl.num_programs(0) + seat_of(r) - given
        run = run_of(seq_len, True, BLOCK_M) if in_pairs else batch_heads - paired
        quotient = divided(number, inverse if in_pairs else others_inverse)
        rest = number - quotient * run
        batch_head = quotient if in_pairs else paired + rest
        block = blocks - 1 - (rest if in_pairs else quotient)
        if in_pairs and t % 2 == 1:
            block = rest - blocks % 2  # an odd number: the longest is beside one beyond the last row
            block = block if block >= 0 else blocks
    else:
        tile = t * gl.num_programs(0) + gl.program_id(0)
        batch_head = divided(tile, inverse)
        block = tile - batch_head * blocks
    batch = divided(batch_head, heads_inverse)
    return batch, batch_head - batch * heads, block * BLOCK_M
