"""The Hopper kernel's softmax of one column block after the first: exponentials without maxima.

P = e^(S - m) is as good with any m that is near the row's maximum: O and the row's sum l have the same factor. So m is not the
maximum so far but what was the maximum of some block: it stays as long as the exponentials stay below LIMIT, of which their
sums, needed anyway, tell. Where a sum is above LIMIT the block is done again with the maximum, and O and l are scaled: as
float32 and both 16-bit types hold LIMIT, nothing has been lost. For that S stays until its exponentials are known to be good;
half a block at a time, so that there are registers for both.

Hong et al. 2023, arXiv 2311.01282 (FlashDecoding++, section 3), which takes one number for all rows and blocks and starts again
when it fails; and FlashAttention-4's rescaling of O only where a maximum has grown by 8.

Each warp decides for its own 16 rows, for which Gluon has no name: a branch wants a number, numbers are alike in all threads,
and making one of a tensor would bring all warps together. PTX's `vote` leaves its answer in a predicate of each warp, and
another line of PTX makes a number of it.
"""

from __future__ import annotations

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

LIMIT = gl.constexpr("0f47000000")
"""2^15, which float16 holds: of a thread's part of a row's sum."""


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
def prepare(C: gl.constexpr):
    """Declares consumer C's predicate, once and before `attended`."""
    gl.inline_asm_elementwise(_declaration(C), "=r", [], gl.int32, is_pure=False, pack=1)


@gluon.jit
def any_above(sums, C: gl.constexpr):
    """Whether one of the warp's sums, two a thread, is above LIMIT or NaN."""
    gl.inline_asm_elementwise(_vote(C), "=r,=r,f,f", [sums], gl.int32, is_pure=False, pack=2)
    return gl.inline_asm_elementwise(_answer(C), "=r", [], gl.int32, is_pure=False, pack=1) != 0


@gluon.jit
def scaled(m, scale_log2, MASK: gl.constexpr):
    """scale_log2 m, of which exponentials are one FFMA and one EX2 an element. m is a maximum of unscaled scores."""
    shift = m * scale_log2
    if MASK:
        shift = gl.where(m == float("-inf"), 0.0, shift)  # a row that has seen no key: -inf - (-inf) is NaN
    return shift


@gluon.jit
def row_sums(e):
    """The sums over what each of a row's four threads holds, [ROWS, 4], which meet at the end of a tile only."""
    return gl.sum(gl.sum(e.reshape([e.shape[0], e.shape[1] // 8, 4, 2]), 3), 1)


@gluon.jit
def along(x, rows):
    """rows [ROWS] beside x [ROWS, ...]."""
    return gl.convert_layout(rows, gl.SliceLayout(1, x.type.layout))[:, None]


@gluon.jit
def halves(s):
    """S of the block's first keys and of its last."""
    first, last = gl.split(s.reshape([s.shape[0], 2, s.shape[1] // 2]).permute((0, 2, 1)))
    return first, last


@gluon.jit
def beside(first, last):
    """P of both halves of a block's keys; no number changes its register."""
    return gl.join(first, last).permute((0, 2, 1)).reshape([first.shape[0], 2 * first.shape[1]])


@gluon.jit
def weighed(s, earlier, o, l, m, scale_log2, C: gl.constexpr, LATER: gl.constexpr, MASK: gl.constexpr, P: gl.constexpr):
    """P of half a block, of type P, and what has become of P of the half before, of O, l [ROWS, 4] and m [ROWS]."""
    # Where m is -inf this is inf or NaN, hence above LIMIT.
    e = gl.exp2(s * scale_log2 - along(s, m * scale_log2))
    sums = gl.convert_layout(row_sums(e), l.type.layout)
    p = e.to(P)
    if any_above(sums, C):
        m_new = gl.maximum(m, gl.convert_layout(gl.max(s, 1), m.type.layout))
        shift = scaled(m_new, scale_log2, MASK)
        decay = gl.exp2(m * scale_log2 - shift)
        o = o * along(o, decay)
        l = l * along(l, decay)
        if LATER:
            earlier = (earlier.to(gl.float32) * along(earlier, decay)).to(P)
        e = gl.exp2(s * scale_log2 - along(s, shift))
        sums = gl.convert_layout(row_sums(e), l.type.layout)
        p = e.to(P)
        m = m_new
    return p, earlier, o, l + sums, m


@gluon.jit
def attended(s, p, o, l, m, scale_log2, C: gl.constexpr, MASK: gl.constexpr):
    """P of a block in p's layout, and O, l, m. MASK: whether a row may have seen no key yet."""
    first, last = halves(s)
    a, _, o, l, m = weighed(first, first, o, l, m, scale_log2, C, False, MASK, p.dtype)
    b, a, o, l, m = weighed(last, a, o, l, m, scale_log2, C, True, MASK, p.dtype)
    return gl.convert_layout(beside(a, b), p.type.layout), o, l, m  # the registers of an accumulator are those of the operand
