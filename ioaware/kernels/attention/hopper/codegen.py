"""Arithmetic for which the compiler's own choice of instructions is slow or takes registers that there are not."""

from __future__ import annotations

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

BFLOAT16_PAIR = gl.constexpr("shl.b32 $0, $2, 16;\nand.b32 $1, $2, 0xffff0000;")
FLOAT16_PAIR = gl.constexpr("{ .reg .b16 a, b; mov.b32 {a, b}, $2; cvt.f32.f16 $0, a; cvt.f32.f16 $1, b; }")


@gluon.jit
def widened(x):
    """float32 of float16 or bfloat16. Of numbers that were float32 before, the compiler would otherwise round each by itself,
    in the unit of the exponentials, instead of two at once."""
    if x.dtype == gl.bfloat16:
        return gl.inline_asm_elementwise(BFLOAT16_PAIR, "=r,=r,r", [x], gl.float32, is_pure=True, pack=2)
    return gl.inline_asm_elementwise(FLOAT16_PAIR, "=f,=f,r", [x], gl.float32, is_pure=True, pack=2)


@gluon.jit
def turn(n, SLOTS: gl.constexpr):
    """Slot of the n-th tile of a ring, whose SLOTS are a power of two, and the phase of its barriers. Of n % SLOTS the compiler
    makes n * size - n // SLOTS * SLOTS * size, for each address in the slot, and carries every product through the loop."""
    return n & (SLOTS - 1), (n // SLOTS) & 1


@triton.constexpr_function
def _log2(slots: int) -> int:
    return slots.bit_length() - 1


@gluon.jit
def ring(n, SLOTS: gl.constexpr):
    """Slot of the n-th tile of a ring of any number of slots and the phase of its barriers. Bits are cheaper than what rounds
    a number that might be negative."""
    if SLOTS & (SLOTS - 1) == 0:
        return n & (SLOTS - 1), (n >> _log2(SLOTS)) & 1
    return n % SLOTS, (n // SLOTS) & 1


@gluon.jit
def unknown_zero(n):
    """Zero, of a number that is never negative, which the compiler does not know. What is computed from it is computed where it
    is written; what never changes would be computed once, far above, and kept in registers until then."""
    return gl.minimum(n, 0)
