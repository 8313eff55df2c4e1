"""Compute gradients from their float32 accumulators, in plain Triton.

It follows the fused Hopper backward kernel.

finish_kernel: dQ = scale * accumulator, whose elements have the order of a wgmma accumulator's registers
finish_parts_kernel: dK and dV of the column blocks that several CTAs computed, likewise
"""

from __future__ import annotations

import triton
import triton.language as tl

from ioaware.kernels.attention.hopper.backward_pass.dq_accumulator import PIECE


@triton.jit
def in_rows(piece):
    """Reorder a piece of an accumulator to 64 rows by 64 columns.

    Within a piece the place of (row, column) is, from the slowest: column / 8, row / 16, row % 8, column / 2 % 4, row / 8 % 2,
    column % 2. A thread of the wgmma that computed them has the last two in adjacent registers.
    """
    return piece.reshape(8, 4, 8, 4, 2, 2).permute(1, 4, 2, 0, 3, 5).reshape(64, 64)


@triton.jit
def finish_kernel(
    Sums, dQ, stride_qb, stride_qh, stride_qn, seq_len, scale, HEAD_DIM: tl.constexpr, PIECES: tl.constexpr
):  # fmt: skip
    """Compute dQ from Sums.

    Their shape is [batch heads, row blocks of 64, PIECES blocks of 64 columns, PIECE].

    Grid (row blocks times PIECES, heads, batch).
    """
    piece, head, batch = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    batch_head = batch * tl.num_programs(1) + head
    sums = tl.load(Sums + (batch_head * tl.num_programs(0) + piece) * PIECE + tl.arange(0, PIECE))
    dq = in_rows((sums * scale).to(dQ.dtype.element_ty))
    rows = piece // PIECES * 64 + tl.arange(0, 64)
    cols = piece % PIECES * 64 + tl.arange(0, 64)
    inside = (rows < seq_len)[:, None] & (cols < HEAD_DIM)[None, :]
    tl.store(dQ + batch * stride_qb + head * stride_qh + rows[:, None] * stride_qn + cols[None, :], dq, mask=inside)


@triton.jit
def finish_parts_kernel(
    Parts, dK, dV, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn, kv_len, heads, blocks, before, scale,
    HEAD_DIM: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """Compute dK and dV of the keys behind the first `before` blocks of 64.

    Each key head has `blocks` of them.

    Parts [blocks / 2, dK and dV, 2, PIECES blocks of 64 columns, PIECE]. Grid (blocks times PIECES).
    """
    piece = tl.program_id(0)
    batch_head = (before + piece // PIECES) // blocks
    batch, head = (batch_head // heads).to(tl.int64), (batch_head % heads).to(tl.int64)
    rows = (before + piece // PIECES) % blocks * 64 + tl.arange(0, 64)
    cols = piece % PIECES * 64 + tl.arange(0, 64)
    inside = (rows < kv_len)[:, None] & (cols < HEAD_DIM)[None, :]
    here = Parts + (piece + piece // (2 * PIECES) * (2 * PIECES)) * PIECE + tl.arange(0, PIECE)
    dk = in_rows((tl.load(here) * scale).to(dK.dtype.element_ty))
    dv = in_rows(tl.load(here + 2 * PIECES * PIECE).to(dV.dtype.element_ty))
    tl.store(dK + batch * stride_kb + head * stride_kh + rows[:, None] * stride_kn + cols[None, :], dk, mask=inside)
    tl.store(dV + batch * stride_vb + head * stride_vh + rows[:, None] * stride_vn + cols[None, :], dv, mask=inside)
