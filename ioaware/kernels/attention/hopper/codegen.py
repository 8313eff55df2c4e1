"""Compute common expressions in forms that compile well.

They compile to faster instructions or fewer live registers.
"""

from __future__ import annotations

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

BFLOAT16_PAIR = gl.constexpr("shl.b32 $0, $2, 16;\nand.b32 $1, $2, 0xffff0000;")
FLOAT16_PAIR = gl.constexpr("{ .reg .b16 a, b; mov.b32 {a, b}, $2; cvt.f32.f16 $0, a; cvt.f32.f16 $1, b; }")


@gluon.jit
def to_float32(x):
    """Convert float16 or bfloat16 to float32, two elements at a time.

    Why: for numbers rounded from float32 the compiler would round each one again, in the unit of the exponentials.
    """
    if x.dtype == gl.bfloat16:
        return gl.inline_asm_elementwise(BFLOAT16_PAIR, "=r,=r,r", [x], gl.float32, is_pure=True, pack=2)
    return gl.inline_asm_elementwise(FLOAT16_PAIR, "=f,=f,r", [x], gl.float32, is_pure=True, pack=2)


@gluon.jit
def ring_slot_phase_pow2(n, SLOTS: gl.constexpr):
    """Return the ring slot of the n-th tile and the phase of its barriers.

    SLOTS is a power of two.

    Why: n % SLOTS would compile to n * size - n // SLOTS * SLOTS * size for each address, all carried through the loop.
    """
    return n & (SLOTS - 1), (n // SLOTS) & 1


@triton.constexpr_function
def _log2(slots: int) -> int:
    return slots.bit_length() - 1


@gluon.jit
def ring_slot_phase(n, SLOTS: gl.constexpr):
    """Return the ring slot of the n-th tile and the phase of its barriers.

    The number of slots is any.

    Why bits where they do: a division of a number that might be negative needs rounding.
    """
    if SLOTS & (SLOTS - 1) == 0:
        return n & (SLOTS - 1), (n >> _log2(SLOTS)) & 1
    return n % SLOTS, (n // SLOTS) & 1


@gluon.jit
def opaque_zero(n):
    """Return 0, computed from n >= 0 so that the compiler cannot prove it.

    Why: an expression that uses it is computed where it is written. A loop invariant would be computed before the loop and
    occupy registers until then.
    """
    return gl.minimum(n, 0)
