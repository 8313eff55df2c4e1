"""Softmax of a column block after the first, with a lazily updated maximum.

P = e^(S - m) is correct for any m near the row's maximum, since O and the row sum l have the same factor. So m is the maximum
of some earlier block, and it stays while the exponentials are at most LIMIT, which their sums show. When a sum exceeds LIMIT,
P is recomputed with the current maximum, and O and l are rescaled. float32 and both 16-bit types hold LIMIT, so nothing is
lost. S stays in registers until its exponentials have passed the test; half a block at a time, so that both fit.

Hong et al. 2023, arXiv 2311.01282 (FlashDecoding++, section 3) use one number for all rows and blocks and restart on overflow;
FlashAttention-4 rescales O only when a maximum has grown by 8.

Each warp decides for its own 16 rows, for which Gluon has no function. A branch needs a scalar, scalars are uniform over the
partition, and a reduction of a tensor would synchronise all warps. PTX `vote` writes its answer to a predicate of each warp,
and another line of PTX makes a scalar of it.
"""

from __future__ import annotations

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

LIMIT = gl.constexpr("0f47000000")
"""2^15 as a PTX float32, which float16 holds.

It is the bound of a thread's part of a row sum.
"""


@triton.constexpr_function
def _declaration(consumer: int) -> str:
    return f".reg .pred above{consumer};\nmov.b32 $0, 0;"


@triton.constexpr_function
def _vote(consumer: int) -> str:
    compare = f"setp.gtu.f32 a, $2, {LIMIT.value}; setp.gtu.or.f32 a, $3, {LIMIT.value}, a;"  # true of NaN
    return f"{{ .reg .pred a; {compare}\nvote.sync.any.pred above{consumer}, a, -1;\nmov.b32 $0, 0; mov.b32 $1, 0; }}"


@triton.constexpr_function
def _answer(consumer: int) -> str:
    return f"selp.b32 $0, 1, 0, above{consumer};"


@gluon.jit
def declare_predicate(C: gl.constexpr):
    """Declare consumer C's predicate; once, before `softmax_step`."""
    gl.inline_asm_elementwise(_declaration(C), "=r", [], gl.int32, is_pure=False, pack=1)


@gluon.jit
def any_above(sums, C: gl.constexpr):
    """Return whether one of the warp's sums, two per thread, exceeds LIMIT or is NaN."""
    gl.inline_asm_elementwise(_vote(C), "=r,=r,f,f", [sums], gl.int32, is_pure=False, pack=2)
    return gl.inline_asm_elementwise(_answer(C), "=r", [], gl.int32, is_pure=False, pack=1) != 0


@gluon.jit
def scaled_max(m, scale_log2, MASK: gl.constexpr):
    """Return scale_log2 m, where m is a maximum of unscaled scores.

    Why: exponentials are then one FFMA and one EX2 per element.
    """
    shift = m * scale_log2
    if MASK:
        shift = gl.where(m == float("-inf"), 0.0, shift)  # a row without a visible key: -inf - (-inf) is NaN
    return shift


@gluon.jit
def row_sums(e):
    """Return the partial row sums [ROWS, 4] of a row's four threads.

    They are added up at the end of a tile only.
    """
    return gl.sum(gl.sum(e.reshape([e.shape[0], e.shape[1] // 8, 4, 2]), 3), 1)


@gluon.jit
def broadcast_rows(x, rows):
    """Broadcast rows [ROWS] in the layout of x [ROWS, ...]."""
    return gl.convert_layout(rows, gl.SliceLayout(1, x.type.layout))[:, None]


@gluon.jit
def split_halves(s):
    """Split S into the first and the second half of the block's keys."""
    first, last = gl.split(s.reshape([s.shape[0], 2, s.shape[1] // 2]).permute((0, 2, 1)))
    return first, last


@gluon.jit
def join_halves(first, last):
    """Join P of both halves of a block's keys; no element changes its register."""
    return gl.join(first, last).permute((0, 2, 1)).reshape([first.shape[0], 2 * first.shape[1]])


@gluon.jit
def softmax_half(s, earlier, o, l, m, scale_log2, C: gl.constexpr, LATER: gl.constexpr, MASK: gl.constexpr, P: gl.constexpr):
    """Return P of half a block, and the state of the rows.

    It is of type P; with it come the earlier half of P, O, l [ROWS, 4] and m [ROWS].

    The latter are rescaled where the maximum had to be updated.
    """
    # Where m is -inf this is inf or NaN, and so above LIMIT.
    e = gl.exp2(s * scale_log2 - broadcast_rows(s, m * scale_log2))
    sums = gl.convert_layout(row_sums(e), l.type.layout)
    p = e.to(P)
    if any_above(sums, C):
        m_new = gl.maximum(m, gl.convert_layout(gl.max(s, 1), m.type.layout))
        shift = scaled_max(m_new, scale_log2, MASK)
        decay = gl.exp2(m * scale_log2 - shift)
        o = o * broadcast_rows(o, decay)
        l = l * broadcast_rows(l, decay)
        if LATER:
            earlier = (earlier.to(gl.float32) * broadcast_rows(earlier, decay)).to(P)
        e = gl.exp2(s * scale_log2 - broadcast_rows(s, shift))
        sums = gl.convert_layout(row_sums(e), l.type.layout)
        p = e.to(P)
        m = m_new
    return p, earlier, o, l + sums, m


@gluon.jit
def softmax_step(s, p, o, l, m, scale_log2, C: gl.constexpr, MASK: gl.constexpr):
    """Return P of a block in p's layout, and O, l, m.

    MASK: a row may have had no visible key yet.
    """
    first, last = split_halves(s)
    a, _, o, l, m = softmax_half(first, first, o, l, m, scale_log2, C, False, MASK, p.dtype)
    b, a, o, l, m = softmax_half(last, a, o, l, m, scale_log2, C, True, MASK, p.dtype)
    return (
        gl.convert_layout(join_halves(a, b), p.type.layout),
        o,
        l,
        m,
    )  # the registers of an accumulator are those of the operand
