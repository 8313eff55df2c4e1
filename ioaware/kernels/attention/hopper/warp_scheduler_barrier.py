"""Turns of the Hopper kernel's consumers: each issues the two matmuls of a block when the one before has issued its own.

Shah et al. 2024, arXiv 2407.08608 (FlashAttention-3), section 3.1. The tensor cores work in the order of issue. In turns a
consumer's matmuls follow each other at once, under the others' softmax; without, consumers wait for the tensor cores together,
and then together for the exponentials.

A turn is passed on at a named barrier of the SM, for which Gluon has no name: PTX's `bar.sync` waits until all of its threads
are there, 128 that wait and 128 that only `bar.arrive`. Nobody arrives twice before the other has waited, as its turn comes
back only through it. All consumers have to take equally many turns.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

FIRST = gl.constexpr(8)
"""Consumer C waits at barrier 8 + C, of 16. Triton keeps those up to 1 + CONSUMERS for itself."""
WAIT = gl.constexpr("bar.sync $1, 256;\nmov.b32 $0, 0;")
ARRIVE = gl.constexpr("bar.arrive $1, 256;\nmov.b32 $0, 0;")


@gluon.jit
def _at(PTX: gl.constexpr, BARRIER: gl.constexpr):
    one_a_thread = gl.full([128], BARRIER, gl.int32, gl.BlockedLayout([1], [32], [4], [0]))  # so that each does it once
    gl.inline_asm_elementwise(PTX, "=r,r", [one_a_thread], gl.int32, is_pure=False, pack=1)


@gluon.jit
def take_turn(C: gl.constexpr):
    """Waits until it is consumer C's turn."""
    _at(WAIT, FIRST + C)


@gluon.jit
def pass_turn(C: gl.constexpr, CONSUMERS: gl.constexpr):
    """Consumer C's turn is over; it is the next one's."""
    _at(ARRIVE, FIRST + (C + 1) % CONSUMERS)
