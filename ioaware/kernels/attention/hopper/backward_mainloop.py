"""What a consumer of the fused Hopper backward kernel does with one row block; the order of things is hopper_backward.py's.

A state goes from one row block to the next: dk, dv, where in dQ's sums the last block's part belongs, the block's number in its
head, how many blocks there were so far, and which of three tiles has the last block's dS and which is free for this one's.
A tile is what stays the same for all of its row blocks: the consumer's first key, the first row block, the end of them and how
many are passed over from one head to the next, whether dQ's sums begin with it, a zero that the compiler does not know, and,
with HOLD, 64 columns of its K in registers.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from ioaware.kernels.attention.hopper.backward_tile_scheduler import BLOCK_N
from ioaware.kernels.attention.hopper.codegen import turn, unknown_zero, widened
from ioaware.kernels.attention.hopper.column_blocks import SIDE, masked_columns
from ioaware.kernels.attention.hopper.dq_accumulator import next_sums, put
from ioaware.kernels.attention.hopper.gluon_compat import SINCE_3_9


@gluon.jit
def start_transposed(a, b, BLOCK_M: gl.constexpr):
    """Starts A B^T."""
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    return warpgroup_mma(a, b.permute((1, 0)), gl.zeros([SIDE, BLOCK_M], gl.float32, S), use_acc=False, is_async=True)


@gluon.jit
def start_scores(k_held, k, q, HOLD: gl.constexpr, BLOCK_M: gl.constexpr):
    """Starts S^T = K Q^T; with HOLD, k_held is the first 64 columns of K in registers."""
    if HOLD:
        s = start_transposed(k_held, q.slice(0, 64, dim=1), BLOCK_M)
        if k.shape[1] > 64:
            s = warpgroup_mma(k.slice(64, 64, dim=1), q.slice(64, 64, dim=1).permute((1, 0)), s, is_async=True)
    else:
        s = start_transposed(k, q, BLOCK_M)
    return s


@gluon.jit
def start_dq(C: gl.constexpr, ds_tile, k, BLOCK_M: gl.constexpr):
    """Starts dQ = dS K of 64 rows or, where a block has no more rows, of 64 columns."""
    HALF: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    if BLOCK_M == 2 * SIDE:
        ds_tile = ds_tile.slice(C * SIDE, SIDE, dim=1)
    else:
        k = k.slice(C * 64, 64, dim=1)
    return warpgroup_mma(ds_tile.permute((1, 0)), k, gl.zeros([SIDE, 64], gl.float32, HALF), use_acc=False, is_async=True)


@gluon.jit
def row_block(
    C: gl.constexpr, LATE: gl.constexpr, MASK: gl.constexpr, late, state, tile, memory, signals, sizes, scale_log2,
    CAUSAL: gl.constexpr, WHOLE: gl.constexpr, HOLD: gl.constexpr, BLOCK_M: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """dK and dV of one row block and, if it is not the tile's first one (late), what the block before it adds to dQ. LATE may
    be False where late is, and spares a matmul: an accumulator in flight cannot leave one side of a branch. Returns the next
    state."""
    q_tiles, do_tiles, row_tiles, k_tiles, v_tiles, ds_tiles, _ = memory
    q_full, do_full, rows_full, row_block_empty, _, _, _, ds_full = signals
    dk, dv, sums, i, done, latest, free = state
    key, first, end, passed, begins, here, k_held = tile
    HEAD_DIM: gl.constexpr = q_tiles.shape[4]
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    P: gl.constexpr = gl.DotOperandLayout(0, dk.type.layout, 2)
    zero = unknown_zero(done)  # so that descriptors of tiles that never change are computed for each block
    k_both = k_tiles.index(zero).reshape([BLOCK_N, HEAD_DIM])
    k = k_both.slice(C * SIDE, SIDE, dim=0)
    v = v_tiles.index(zero).reshape([BLOCK_N, HEAD_DIM]).slice(C * SIDE, SIDE, dim=0)
    slot, phase = turn(done, STAGES)
    q = q_tiles.index(slot).reshape([BLOCK_M, HEAD_DIM])
    do = do_tiles.index(slot).reshape([BLOCK_M, HEAD_DIM])

    mbarrier.wait(q_full.index(slot), phase)  # Q_i has landed
    s = start_scores(k_held, k, q, HOLD, BLOCK_M)
    mbarrier.wait(do_full.index(slot), phase)  # dO_i has landed
    dp = start_transposed(v, do, BLOCK_M)
    s = warpgroup_mma_wait(1, [s])
    if MASK:
        s = masked_columns(s, key, i * BLOCK_M, sizes, CAUSAL)
    mbarrier.wait(rows_full.index(slot), phase)  # the log-sum-exp and D are there
    lse = row_tiles.index(slot).slice(0, BLOCK_M).load(gl.SliceLayout(0, S))
    p = gl.exp2(s * scale_log2 - lse[None, :])
    rounded = p.to(q_tiles.dtype)
    D_LATE: gl.constexpr = BLOCK_M == 2 * SIDE and SINCE_3_9  # which has no registers for D any earlier
    if not D_LATE:
        delta = row_tiles.index(slot).slice(BLOCK_M, BLOCK_M).load(gl.SliceLayout(0, S))
    dp = warpgroup_mma_wait(0, [dp])
    if D_LATE:
        delta = row_tiles.index(slot).slice(BLOCK_M, BLOCK_M).load(gl.SliceLayout(0, S))
    # The registers of an accumulator are those of the operand.
    dv = warpgroup_mma(gl.convert_layout(rounded, P), do, dv, is_async=True)
    if BLOCK_M == 128:
        p = widened(rounded)  # there are no registers for both
    ds = (p * (dp - delta[None, :])).to(q_tiles.dtype)

    if late:
        before, phase_before = turn(done - 1, 2)
        # All of dS_{i-1} is there; and the other consumer has waited for dQ_{i-3}, whose dS was in this tile.
        mbarrier.wait(ds_full.index(before), phase_before)
    ds_tiles.index(free).slice(C * SIDE, SIDE, dim=0).store(ds)
    fence_async_shared()  # what was stored of dS, before the tensor cores read it
    mbarrier.arrive(ds_full.index(done & 1))  # this half of dS_i is there
    if LATE:
        dq = start_dq(C, ds_tiles.index(latest), k_both, BLOCK_M)
    dk = warpgroup_mma(gl.convert_layout(ds, P), q, dk, is_async=True)
    if LATE:
        dv, dq = warpgroup_mma_wait(1, [dv, dq])
        if late:
            put(sums, dq, begins, here, WHOLE)
            sums = next_sums(sums, i, first, passed, BLOCK_M * HEAD_DIM)
    else:
        dv = warpgroup_mma_wait(1, [dv])
    dk = warpgroup_mma_wait(0, [dk])
    mbarrier.arrive(row_block_empty.index(slot))  # all matmuls have read Q_i and dO_i, and lse and D are used
    i += 1
    if i == end:  # on to the next head of the group
        i = first
    return dk, dv, sums, i, done + 1, free, gl.where(free == 2, 0, free + 1)


@gluon.jit
def unseen_row_block(C: gl.constexpr, state, memory, signals, STAGES: gl.constexpr):
    """The first row block of a tile for a consumer none of whose keys it sees: its half of dS is zero."""
    _, _, _, _, _, ds_tiles, _ = memory
    q_full, do_full, rows_full, row_block_empty, _, _, _, ds_full = signals
    dk, dv, sums, i, done, _, free = state
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, SIDE, 16])
    ds_tiles.index(free).slice(C * SIDE, SIDE, dim=0).store(gl.zeros([SIDE, SIDE], ds_tiles.dtype, S))
    fence_async_shared()  # what was stored of dS, before the tensor cores read it
    mbarrier.arrive(ds_full.index(done & 1))  # this half of dS_i is there
    slot, phase = turn(done, STAGES)
    mbarrier.wait(q_full.index(slot), phase)  # what landed is passed over, so that no phase is
    mbarrier.wait(do_full.index(slot), phase)
    mbarrier.wait(rows_full.index(slot), phase)
    mbarrier.arrive(row_block_empty.index(slot))  # for this consumer
    return dk, dv, sums, i + 1, done + 1, free, gl.where(free == 2, 0, free + 1)
