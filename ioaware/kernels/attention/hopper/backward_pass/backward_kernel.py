"""Compute attention's gradients on Hopper in one kernel.

A producer warpgroup loads, two consumers of 64 keys each compute.

Dao 2023, arXiv 2307.08691, Algorithm 2, for one column block and its row blocks i; transposed, so that keys are rows of wgmma,
and P^T and dS^T go from the accumulators of one matmul straight into the operands of the next:
    start S^T = K Q_i^T;  start dP^T = V dO_i^T                both consumers, for their own 64 keys
    wait for S^T;  P^T = exp(S^T - lse_i)                      while dP^T runs
    wait for dP^T;  start dV += P^T dO_i
    dS_i^T = P^T * (dP^T - D_i)                                while dV runs
    wait for both consumers' dS_{i-1};  dS_i^T -> shared memory
    start dQ_{i-1} = dS_{i-1} K, half of it each;  start dK += dS_i^T Q_i
    wait for dQ_{i-1};  add it to the accumulator in HBM       while dK runs
Where registers are left, half of K or all of it stays in registers for S^T, since shared-memory bandwidth is the limit. dQ sums
over the keys of both consumers. It is computed one row block late, when the other consumer's half of dS is stored, so that
neither waits; the first row block's dQ matmul is discarded.
dQ's accumulator is float32 in HBM. All column blocks add to it, so its last bits vary, in the order of a wgmma accumulator's
registers (dq_accumulator.py). So do dK and dV of a column block that several CTAs share (backward_tile_scheduler.py). With few
rows, one CTA computes a whole head, and its accumulators are its own. backward_preprocess.py and backward_postprocess.py have
the kernels before and after.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma_wait,
)

from ioaware.kernels.attention.hopper.backward_pass.backward_mainloop import (
    ColumnTile,
    State,
    row_block_step,
    skip_row_block,
    start_dq,
)
from ioaware.kernels.attention.hopper.backward_pass.backward_tile_scheduler import (
    BLOCK_N,
    Schedule,
    num_tiles,
    num_work_items,
    row_blocks_of_tile,
    split_tile,
    tile_coordinates,
)
from ioaware.kernels.attention.hopper.backward_pass.column_blocks import SIDE, Sizes
from ioaware.kernels.attention.hopper.backward_pass.dq_accumulator import ADD, PIECE, accumulate, atomic_add, store_dq
from ioaware.kernels.attention.hopper.codegen import opaque_zero, ring_slot_phase_pow2
from ioaware.kernels.attention.hopper.gluon_compat import SINCE_3_9, tma_load, tma_store, tma_store_wait, warpgroup_barrier


class Tiles(NamedTuple):
    """Shared memory of a CTA.

    It holds rings of Q, dO and the rows' numbers, one K and V, three dS, and tiles for stores.
    """

    q: Any
    do: Any
    row: Any
    k: Any
    v: Any
    ds: Any
    out: Any


class Barriers(NamedTuple):
    """An mbarrier per tile.

    It is full when the data has landed, empty when every reader is done with it.
    """

    q_full: Any
    do_full: Any
    rows_full: Any
    row_block_empty: Any
    k_full: Any
    v_full: Any
    kv_empty: Any
    ds_full: Any


@gluon.jit
def load(
    Q, K, V, dO, Rows, tiles, barriers, sizes, group, schedule,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, WHOLE: gl.constexpr, SPLIT: gl.constexpr, BLOCK_M: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    """Load tiles into shared memory.

    Q, dO and the rows' numbers go to rings of STAGES slots, K and V once per tile.
    """
    lanes = gl.arange(0, 2 * BLOCK_M, gl.BlockedLayout([BLOCK_M // 64], [32], [4], [0]))
    loaded = 0  # row blocks so far
    t = 0  # tiles so far
    for r in range(num_work_items(sizes, schedule, CAUSAL, WHOLE, SPLIT)):
        for part in range(num_tiles(r, schedule, CAUSAL, WHOLE, SPLIT)):
            batch, kv_head, col = tile_coordinates(r, part, 0, sizes, schedule, CAUSAL, WHOLE, SPLIT)
            first, end = row_blocks_of_tile(r, part, col, sizes, schedule, CAUSAL, MASKED, SPLIT, BLOCK_M)
            mbarrier.wait(barriers.kv_empty, (t + 1) & 1)  # both consumers have read the last tile's K and V
            mbarrier.expect(barriers.k_full, K.block_type.nbytes)
            tma_load(K, [batch, kv_head, col, 0], barriers.k_full, tiles.k.index(0))
            for member in range(group):
                head = kv_head * group + member
                rows = Rows + (batch * sizes.heads * group + head).to(gl.int64) * schedule.row_blocks * (2 * BLOCK_M) + lanes
                for i in range(first, end):
                    slot, phase = ring_slot_phase_pow2(loaded, STAGES)
                    mbarrier.wait(barriers.row_block_empty.index(slot), phase ^ 1)  # both consumers are done with this slot
                    mbarrier.expect(barriers.q_full.index(slot), Q.block_type.nbytes)
                    tma_load(Q, [batch, head, i * BLOCK_M, 0], barriers.q_full.index(slot), tiles.q.index(slot))
                    if (member == 0) & (i == first):
                        mbarrier.expect(barriers.v_full, V.block_type.nbytes)
                        tma_load(V, [batch, kv_head, col, 0], barriers.v_full, tiles.v.index(0))
                    mbarrier.expect(barriers.do_full.index(slot), dO.block_type.nbytes)
                    tma_load(dO, [batch, head, i * BLOCK_M, 0], barriers.do_full.index(slot), tiles.do.index(slot))
                    # Always from the L2: occasional hits in an L1 could not be predicted.
                    tiles.row.index(slot).store(gl.load(rows + i * (2 * BLOCK_M), cache_modifier=".cg"))
                    mbarrier.arrive(barriers.rows_full.index(slot))  # the log-sum-exp and D are stored
                    loaded += 1
            t += 1


@gluon.jit
def epilogue(
    C: gl.constexpr, x, X, tile, r, part, zero, sizes, schedule,
    CAUSAL: gl.constexpr, WHOLE: gl.constexpr, SPLIT: gl.constexpr,
):  # fmt: skip
    """Store a consumer's 64 rows of a gradient through a tile in shared memory.

    They belong to this column block.
    """
    batch, kv_head, col = tile_coordinates(r, part, zero, sizes, schedule, CAUSAL, WHOLE, SPLIT)
    tma_store_wait(0)  # the last store has read the tile
    warpgroup_barrier()  # all warps, after that wait
    tile.reshape(x.shape).store(x.to(tile.dtype))
    fence_async_shared()  # what was stored to the tile, before TMA reads it
    warpgroup_barrier()
    tma_store(X, [batch, kv_head, col + C * SIDE, 0], tile)


@gluon.jit
def mma(
    C: gl.constexpr, dQ, dK, dV, Sums, Parts, tiles, barriers, sizes, group, schedule, scale, scale_log2,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, WHOLE: gl.constexpr, SPLIT: gl.constexpr, HOLD: gl.constexpr,
    BLOCK_M: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Compute dK and dV of keys 64 C to 64 C + 63 of each tile.

    Half of the tile's part of dQ is computed, too.
    """
    HEAD_DIM: gl.constexpr = tiles.q.shape[4]
    BLOCK: gl.constexpr = BLOCK_M * HEAD_DIM
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    HELD: gl.constexpr = HOLD and not (
        SINCE_3_9 and (BLOCK_M == SIDE or (SPLIT and MASKED == 2))
    )  # no registers are left there
    UNSEEN: gl.constexpr = C * (MASKED == 1)  # row blocks that see keys of the other consumer only
    done = gl.to_tensor(0)  # row blocks so far
    latest, free = gl.to_tensor(2), gl.to_tensor(0)  # of three dS tiles
    t = 0  # tiles so far
    for r in range(num_work_items(sizes, schedule, CAUSAL, WHOLE, SPLIT)):
        for part in range(num_tiles(r, schedule, CAUSAL, WHOLE, SPLIT)):
            batch, kv_head, col = tile_coordinates(r, part, 0, sizes, schedule, CAUSAL, WHOLE, SPLIT)
            here = opaque_zero(part if WHOLE else done)  # addresses are recomputed for each tile
            first, end = row_blocks_of_tile(r, part, col, sizes, schedule, CAUSAL, MASKED, SPLIT, BLOCK_M)
            dk = gl.zeros([SIDE, HEAD_DIM], gl.float32, ACC)
            dv = gl.zeros([SIDE, HEAD_DIM], gl.float32, ACC)
            query_head = gl.program_id(0) * group if WHOLE else (batch * sizes.heads + kv_head) * group
            accumulator = Sums + (query_head * schedule.row_blocks + first).to(gl.int64) * BLOCK + C * PIECE
            state = State(dk, dv, accumulator, first, done, latest, free)
            mbarrier.wait(barriers.k_full, t & 1)  # K has landed
            mbarrier.wait(barriers.v_full, t & 1)  # V has landed
            k_registers = here
            if HELD:  # half of K or all of it in registers: fewer reads of shared tiles
                k = tiles.k.index(here).reshape([BLOCK_N, HEAD_DIM]).slice(C * SIDE, SIDE, dim=0)
                k_registers = k.slice(0, 64, dim=1).load(gl.DotOperandLayout(0, S, 2))
            tile = ColumnTile(col + C * SIDE, first, end, first + schedule.row_blocks - end, part == 0, here, k_registers)
            blocks = (end - first) * group
            # A peeled first row block is faster; with twice the rows it is slower, and spills with Triton 3.9.
            if BLOCK_M == SIDE and (MASKED == 1 or SPLIT or not SINCE_3_9):
                if UNSEEN:
                    state = skip_row_block(C, state, tiles, barriers, STAGES)
                state = row_block_step(
                    C, UNSEEN, MASKED > 0, UNSEEN, state, tile, tiles, barriers, sizes, scale_log2,
                    CAUSAL, WHOLE, HELD, BLOCK_M, STAGES,
                )  # fmt: skip
                for _block in range(1 + UNSEEN, blocks):
                    state = row_block_step(
                        C, True, MASKED == 2, True, state, tile, tiles, barriers, sizes, scale_log2,
                        CAUSAL, WHOLE, HELD, BLOCK_M, STAGES,
                    )  # fmt: skip
            else:
                for block in range(blocks):
                    state = row_block_step(
                        C, True, MASKED > 0, block > 0, state, tile, tiles, barriers, sizes, scale_log2,
                        CAUSAL, WHOLE, HELD, BLOCK_M, STAGES,
                    )  # fmt: skip
            done, latest, free = state.done, state.latest, state.free
            last, phase = ring_slot_phase_pow2(done - 1, 2)
            mbarrier.wait(barriers.ds_full.index(last), phase)  # the last dS is complete
            k_both = tiles.k.index(opaque_zero(done)).reshape([BLOCK_N, HEAD_DIM])
            if HELD or SPLIT:
                here = opaque_zero(done)  # a second zero: no registers are left for addresses
            accumulate(
                state.accumulator,
                warpgroup_mma_wait(0, [start_dq(C, tiles.ds.index(latest), k_both, BLOCK_M)]),
                part == 0,
                here,
                WHOLE,
            )
            mbarrier.arrive(barriers.kv_empty)  # all matmuls have read K and V
            # Each store has its own opaque zeros: shared ones would occupy registers until the next tile. Where that would
            # spill, addresses of the tiles are recomputed too.
            AGAIN: gl.constexpr = (
                (WHOLE or SINCE_3_9)
                if BLOCK_M == 2 * SIDE
                else (SINCE_3_9 and not CAUSAL and (MASKED == 2 or not (WHOLE or SPLIT)))
            )
            in_split = False
            if SPLIT:
                in_split = r == schedule.before
            if in_split:
                parts = Parts + (4 * split_tile(part, opaque_zero(done), schedule) + C) * (SIDE * HEAD_DIM)
                atomic_add(parts, state.dk, here, ADD)
                atomic_add(parts + BLOCK_N * HEAD_DIM, state.dv, here, ADD)
            else:
                zero = opaque_zero(sizes.heads + r if HELD or SPLIT else sizes.heads)
                again = opaque_zero(done) if AGAIN else zero
                epilogue(C, state.dv, dV, tiles.out.index(C + again), r, part, zero, sizes, schedule, CAUSAL, WHOLE, SPLIT)
                zero = opaque_zero(group)
                again = opaque_zero(t) if AGAIN else zero
                epilogue(
                    C, state.dk * scale, dK, tiles.out.index(C + again), r, part, zero, sizes, schedule, CAUSAL, WHOLE, SPLIT
                )
            t += 1
        if WHOLE:
            batch, kv_head, _ = tile_coordinates(r, 0, 0, sizes, schedule, CAUSAL, WHOLE, SPLIT)
            accumulator = Sums + (gl.program_id(0) * group * schedule.row_blocks).to(gl.int64) * BLOCK + C * PIECE
            store_dq(
                C,
                dQ,
                accumulator,
                tiles.out.index(C),
                batch,
                kv_head,
                schedule.row_blocks,
                group,
                scale,
                opaque_zero(done),
                BLOCK_M,
                BLOCK,
            )
    tma_store_wait(0)  # shared tiles outlives its readers


SIZES = ["seq_len", "kv_len", "heads", "batch_heads", "group"]
SCHEDULE = ["row_blocks", "blocks", "pairs", "paired", "others", "before", "rest", "share"]


@gluon.jit(do_not_specialize=SIZES + SCHEDULE)
def hopper_backward_kernel(
    Q, K, V, dO, dQ, dK, dV, Rows, Sums, Parts, seq_len, kv_len, heads, batch_heads, group,
    row_blocks, blocks, pairs, paired, others, before, rest, share, scale, scale_log2,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, WHOLE: gl.constexpr, SPLIT: gl.constexpr, HOLD: gl.constexpr,
    BLOCK_M: gl.constexpr, STAGES: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Compute dK and dV of column blocks of 128 keys, and their parts of dQ.

    The CTAs are persistent.

    Q, K, V, dO, dK, dV: descriptors of [batch, heads, rows, head_dim], with boxes of BLOCK_M rows (Q, dO), 128 (K, V) and 64
    (dK, dV); heads and batch_heads count key heads, each of `group` query heads.
    Rows [batch heads, row blocks, 2, BLOCK_M] and Sums, dQ's accumulator [batch heads, row blocks, BLOCK_M HEAD_DIM], in
    float32, as backward_preprocess.prepare_kernel leaves them. Parts, where SPLIT: the accumulators of dK and dV [column
    blocks of the last round, 2, 128 HEAD_DIM]. BLOCK_M HEAD_DIM is twice PIECE.
    """
    HEAD_DIM: gl.constexpr = Q.block_shape[3]
    q_tiles = gl.allocate_shared_memory(Q.dtype, [STAGES, 1, 1, BLOCK_M, HEAD_DIM], Q.layout)
    do_tiles = gl.allocate_shared_memory(dO.dtype, [STAGES, 1, 1, BLOCK_M, HEAD_DIM], dO.layout)
    row_tiles = gl.allocate_shared_memory(gl.float32, [STAGES, 2 * BLOCK_M], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    k_tiles = gl.allocate_shared_memory(K.dtype, [1, 1, 1, BLOCK_N, HEAD_DIM], K.layout)
    v_tiles = gl.allocate_shared_memory(V.dtype, [1, 1, 1, BLOCK_N, HEAD_DIM], V.layout)
    DS: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BLOCK_N, BLOCK_M], Q.dtype)
    ds_tiles = gl.allocate_shared_memory(Q.dtype, [3, BLOCK_N, BLOCK_M], DS)
    out_tiles = gl.allocate_shared_memory(dK.dtype, [2, 1, 1, SIDE, HEAD_DIM], dK.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    do_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    rows_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    row_block_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    kv_empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    ds_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(q_full.index(i), 1)  # TMA, when its bytes have landed
        mbarrier.init(do_full.index(i), 1)
        mbarrier.init(rows_full.index(i), 1)
        mbarrier.init(row_block_empty.index(i), 2)  # both consumers
    mbarrier.init(k_full, 1)
    mbarrier.init(v_full, 1)
    mbarrier.init(kv_empty, 2)
    for i in gl.static_range(2):
        mbarrier.init(ds_full.index(i), 2)  # both consumers
    fence_async_shared()  # initialised barriers, visible before TMA arrives at them
    tiles = Tiles(q_tiles, do_tiles, row_tiles, k_tiles, v_tiles, ds_tiles, out_tiles)
    barriers = Barriers(q_full, do_full, rows_full, row_block_empty, k_full, v_full, kv_empty, ds_full)
    sizes = Sizes(seq_len, kv_len, heads, batch_heads)
    schedule = Schedule(row_blocks, blocks, pairs, paired, others, before, rest, share)
    gl.warp_specialize(
        [
            (load, (Q, K, V, dO, Rows, tiles, barriers, sizes, group, schedule,
                       CAUSAL, MASKED, WHOLE, SPLIT, BLOCK_M, STAGES)),
            (mma, (0, dQ, dK, dV, Sums, Parts, tiles, barriers, sizes, group, schedule, scale, scale_log2,
                       CAUSAL, MASKED, WHOLE, SPLIT, HOLD, BLOCK_M, STAGES)),
            (mma, (1, dQ, dK, dV, Sums, Parts, tiles, barriers, sizes, group, schedule, scale, scale_log2,
                       CAUSAL, MASKED, WHOLE, SPLIT, HOLD, BLOCK_M, STAGES)),
        ],
        [4, 4], [REGISTERS, REGISTERS],
    )  # fmt: skip
