"""Before and after the Hopper backward kernels, in plain Triton: the rows' numbers, and dQ out of its float32 sums.

prepare_kernel: D = rowsum(dO * O) (Dao 2023, arXiv 2307.08691, Algorithm 2) beside the log-sum-exp; zeros for all sums
finish_kernel: dQ = scale * sums, which lie in the order of a wgmma accumulator's registers
finish_parts_kernel: dK and dV of the column blocks that several programs worked on, likewise
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
PIECE = tl.constexpr(4096)
"""Numbers in a piece of dQ's sums, 64 rows by 64 columns."""


@triton.jit
def prepare_kernel(
    O, dO, Lse, Rows, Sums, Parts, stride_ob, stride_oh, stride_on, stride_gb, stride_gh, stride_gn, seq_len, parts,
    HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """Rows [batch heads, row blocks, 2, BLOCK_M]: the log-sum-exp in base 2 and D of each row; with SUMS, zeros to
    Sums [batch heads, row blocks, BLOCK_M WIDTH] and the `parts` pieces of Parts. A row beyond seq_len, or one that has seen no
    key, gets an infinite log-sum-exp, so that its weights 2^(s - lse) are zero. Grid (row blocks, heads, batch)."""
    block, head, batch = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    lanes = tl.arange(0, BLOCK_M)
    rows, cols = block * BLOCK_M + lanes, tl.arange(0, WIDTH)
    inside = (rows < seq_len)[:, None] & (cols < HEAD_DIM)[None, :]
    o = tl.load(O + batch * stride_ob + head * stride_oh + rows[:, None] * stride_on + cols[None, :], mask=inside, other=0.0)
    do = tl.load(dO + batch * stride_gb + head * stride_gh + rows[:, None] * stride_gn + cols[None, :], mask=inside, other=0.0)
    batch_head = batch * tl.num_programs(1) + head
    lse = tl.load(Lse + batch_head * seq_len + rows, mask=rows < seq_len, other=float("-inf"))
    here = batch_head * tl.num_programs(0) + block
    Rows += here * (2 * BLOCK_M)
    tl.store(Rows + lanes, tl.where(lse == float("-inf"), float("inf"), lse * LOG2_E))
    tl.store(Rows + BLOCK_M + lanes, tl.sum(o.to(tl.float32) * do.to(tl.float32), 1))
    if SUMS:
        numbers = tl.arange(0, BLOCK_M * WIDTH)
        tl.store(Sums + here * (BLOCK_M * WIDTH) + numbers, tl.zeros([BLOCK_M * WIDTH], tl.float32))
        for part in range(here.to(tl.int32), parts, tl.num_programs(0) * tl.num_programs(1) * tl.num_programs(2)):
            tl.store(Parts + part * PIECE + tl.arange(0, PIECE), tl.zeros([PIECE], tl.float32))


@triton.jit
def in_rows(piece):
    """A piece of sums as 64 rows by 64 columns. Within a piece the place of (row, column) is, from the slowest: column / 8,
    row / 16, row % 8, column / 2 % 4, row / 8 % 2, column % 2: a thread of the wgmma that computed them has the last two in
    adjacent registers."""
    return piece.reshape(8, 4, 8, 4, 2, 2).permute(1, 4, 2, 0, 3, 5).reshape(64, 64)


@triton.jit
def finish_kernel(
    Sums, dQ, stride_qb, stride_qh, stride_qn, seq_len, scale, HEAD_DIM: tl.constexpr, PIECES: tl.constexpr
):  # fmt: skip
    """dQ from Sums [batch heads, row blocks of 64, PIECES blocks of 64 columns, PIECE]. Grid (row blocks times PIECES, heads,
    batch)."""
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
    """dK and dV of the keys behind the first `before` blocks of 64, of which each key head has `blocks`, out of Parts
    [blocks / 2, dK and dV, 2, PIECES blocks of 64 columns, PIECE]. Grid (blocks times PIECES)."""
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
