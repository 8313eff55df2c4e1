"""Run the main loop of the fused Hopper backward kernel.

One call is one row block of one column tile, for one consumer.

backward_kernel.py has the order of its steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from ioaware.kernels.attention.hopper.backward_pass.backward_tile_scheduler import BLOCK_N
from ioaware.kernels.attention.hopper.backward_pass.column_blocks import SIDE, apply_mask_transposed
from ioaware.kernels.attention.hopper.backward_pass.dq_accumulator import accumulate, next_accumulator
from ioaware.kernels.attention.hopper.codegen import opaque_zero, ring_slot_phase_pow2, to_float32
from ioaware.kernels.attention.hopper.gluon_compat import SINCE_3_9


class State(NamedTuple):
    """State passed from one row block to the next."""

    dk: Any
    dv: Any
    accumulator: Any
    """Where in dQ's accumulator the last row block's part belongs."""
    i: Any
    """Row block within its head."""
    done: Any
    """Row blocks so far."""
    latest: Any
    """Index of the dS tile, of three, with the last row block's dS."""
    free: Any
    """Index of the dS tile that is free for this row block's dS."""


class ColumnTile(NamedTuple):
    """Values that are the same for all row blocks of a tile."""

    key: Any
    """First key of this consumer."""
    first: Any
    """First row block of each head."""
    end: Any
    """End of the row blocks of each head."""
    skipped: Any
    """Row blocks between the end in one head and the first in the next."""
    overwrite: Any
    """Whether this tile is the first to write dQ's accumulator."""
    zero: Any
    """An opaque_zero."""
    k_registers: Any
    """64 columns of this consumer's K in registers, with HOLD."""


@gluon.jit
def start_transposed(a, b, BLOCK_M: gl.constexpr):
    """Start A B^T."""
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    return warpgroup_mma(a, b.permute((1, 0)), gl.zeros([SIDE, BLOCK_M], gl.float32, S), use_acc=False, is_async=True)


@gluon.jit
def start_scores(k_registers, k, q, HOLD: gl.constexpr, BLOCK_M: gl.constexpr):
    """Start S^T = K Q^T.

    With HOLD, k_registers is the first 64 columns of K in registers.
    """
    if HOLD:
        s = start_transposed(k_registers, q.slice(0, 64, dim=1), BLOCK_M)
        if k.shape[1] > 64:
            s = warpgroup_mma(k.slice(64, 64, dim=1), q.slice(64, 64, dim=1).permute((1, 0)), s, is_async=True)
    else:
        s = start_transposed(k, q, BLOCK_M)
    return s


@gluon.jit
def start_dq(C: gl.constexpr, ds_tile, k, BLOCK_M: gl.constexpr):
    """Start dQ = dS K of 64 rows or, where a block has no more rows, of 64 columns."""
    HALF: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    if BLOCK_M == 2 * SIDE:
        ds_tile = ds_tile.slice(C * SIDE, SIDE, dim=1)
    else:
        k = k.slice(C * 64, 64, dim=1)
    return warpgroup_mma(ds_tile.permute((1, 0)), k, gl.zeros([SIDE, 64], gl.float32, HALF), use_acc=False, is_async=True)


@gluon.jit
def row_block_step(
    C: gl.constexpr, LATE: gl.constexpr, MASK: gl.constexpr, late, state, tile, tiles, barriers, sizes, scale_log2,
    CAUSAL: gl.constexpr, WHOLE: gl.constexpr, HOLD: gl.constexpr, BLOCK_M: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Add one row block to dK and dV.

    If it is not the tile's first one (late), add the last block's part to dQ.

    LATE may be False where late is, and saves a matmul. It is compile-time because an accumulator in flight cannot leave one
    side of a branch. Returns the next state.
    """
    dk, dv, accumulator, i, done, latest, free = state
    HEAD_DIM: gl.constexpr = tiles.q.shape[4]
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    P: gl.constexpr = gl.DotOperandLayout(0, dk.type.layout, 2)
    zero = opaque_zero(done)  # descriptors of tiles that never change are recomputed for each block
    k_both = tiles.k.index(zero).reshape([BLOCK_N, HEAD_DIM])
    k = k_both.slice(C * SIDE, SIDE, dim=0)
    v = tiles.v.index(zero).reshape([BLOCK_N, HEAD_DIM]).slice(C * SIDE, SIDE, dim=0)
    slot, phase = ring_slot_phase_pow2(done, STAGES)
    q = tiles.q.index(slot).reshape([BLOCK_M, HEAD_DIM])
    do = tiles.do.index(slot).reshape([BLOCK_M, HEAD_DIM])

    mbarrier.wait(barriers.q_full.index(slot), phase)  # Q_i has landed
    s = start_scores(tile.k_registers, k, q, HOLD, BLOCK_M)
    mbarrier.wait(barriers.do_full.index(slot), phase)  # dO_i has landed
    dp = start_transposed(v, do, BLOCK_M)
    s = warpgroup_mma_wait(1, [s])
    if MASK:
        s = apply_mask_transposed(s, tile.key, i * BLOCK_M, sizes, CAUSAL)
    mbarrier.wait(barriers.rows_full.index(slot), phase)  # the log-sum-exp and D are stored
    lse = tiles.row.index(slot).slice(0, BLOCK_M).load(gl.SliceLayout(0, S))
    p = gl.exp2(s * scale_log2 - lse[None, :])
    rounded = p.to(tiles.q.dtype)
    D_LATE: gl.constexpr = BLOCK_M == 2 * SIDE and SINCE_3_9  # it has no registers for D any earlier
    if not D_LATE:
        delta = tiles.row.index(slot).slice(BLOCK_M, BLOCK_M).load(gl.SliceLayout(0, S))
    dp = warpgroup_mma_wait(0, [dp])
    if D_LATE:
        delta = tiles.row.index(slot).slice(BLOCK_M, BLOCK_M).load(gl.SliceLayout(0, S))
    # The accumulator's register layout is the operand's.
    dv = warpgroup_mma(gl.convert_layout(rounded, P), do, dv, is_async=True)
    if BLOCK_M == 128:
        p = to_float32(rounded)  # no registers are left for both
    ds = (p * (dp - delta[None, :])).to(tiles.q.dtype)

    if late:
        before, phase_before = ring_slot_phase_pow2(done - 1, 2)
        # dS_{i-1} is complete. The other consumer has waited for dQ_{i-3}, which read this tile.
        mbarrier.wait(barriers.ds_full.index(before), phase_before)
    tiles.ds.index(free).slice(C * SIDE, SIDE, dim=0).store(ds)
    fence_async_shared()  # what was stored of dS, before the tensor cores read it
    mbarrier.arrive(barriers.ds_full.index(done & 1))  # this half of dS_i is stored
    if LATE:
        dq = start_dq(C, tiles.ds.index(latest), k_both, BLOCK_M)
    dk = warpgroup_mma(gl.convert_layout(ds, P), q, dk, is_async=True)
    if LATE:
        dv, dq = warpgroup_mma_wait(1, [dv, dq])
        if late:
            accumulate(accumulator, dq, tile.overwrite, tile.zero, WHOLE)
            accumulator = next_accumulator(accumulator, i, tile.first, tile.skipped, BLOCK_M * HEAD_DIM)
    else:
        dv = warpgroup_mma_wait(1, [dv])
    dk = warpgroup_mma_wait(0, [dk])
    mbarrier.arrive(barriers.row_block_empty.index(slot))  # all matmuls have read Q_i and dO_i, and lse and D are used
    i += 1
    if i == tile.end:  # on to the next head of the group
        i = tile.first
    return State(dk, dv, accumulator, i, done + 1, free, gl.where(free == 2, 0, free + 1))


@gluon.jit
def skip_row_block(C: gl.constexpr, state, tiles, barriers, STAGES: gl.constexpr):
    """Skip the first row block of a tile for a consumer that does not see it.

    The row block sees none of its keys, and its half of dS is zero.
    """
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, SIDE, 16])
    tiles.ds.index(state.free).slice(C * SIDE, SIDE, dim=0).store(gl.zeros([SIDE, SIDE], tiles.ds.dtype, S))
    fence_async_shared()  # what was stored of dS, before the tensor cores read it
    mbarrier.arrive(barriers.ds_full.index(state.done & 1))  # this half of dS_i is stored
    slot, phase = ring_slot_phase_pow2(state.done, STAGES)
    mbarrier.wait(barriers.q_full.index(slot), phase)  # consume the barrier's phase without reading
    mbarrier.wait(barriers.do_full.index(slot), phase)
    mbarrier.wait(barriers.rows_full.index(slot), phase)
    mbarrier.arrive(barriers.row_block_empty.index(slot))  # for this consumer
    return State(
        state.dk, state.dv, state.accumulator, state.i + 1, state.done + 1, state.free,
        gl.where(state.free == 2, 0, state.free + 1),
    )  # fmt: skip
