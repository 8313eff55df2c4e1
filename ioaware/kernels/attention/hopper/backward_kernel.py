"""Attention's gradients on Hopper in one kernel: a producer warpgroup loads, two consumer warpgroups of 64 keys each compute.

Dao 2023, arXiv 2307.08691, Algorithm 2, for one column block and its row blocks i; transposed, so that keys are rows of wgmma,
and P^T and dS^T go from the accumulators of one matmul straight into the operands of the next:
    start S^T = K Q_i^T;  start dP^T = V dO_i^T                both consumers, for their own 64 keys
    wait for S^T;  P^T = exp(S^T - lse_i)                      while dP^T runs
    wait for dP^T;  start dV += P^T dO_i
    dS_i^T = P^T * (dP^T - D_i)                                while dV runs
    wait for both consumers' dS_{i-1};  dS_i^T -> shared memory
    start dQ_{i-1} = dS_{i-1} K, half of it each;  start dK += dS_i^T Q_i
    wait for dQ_{i-1};  add it to the sums in global memory    while dK runs
K's part in S^T comes from registers, all of it or half, where there are any: shared memory binds. dQ sums over the keys of both
consumers. One row block late, it finds the other's half of dS there, and neither waits; the first row block's matmul is for
nothing. dQ's sums are float32 in global memory, to which all column blocks add (so its last bits vary), in the order in which
an accumulator's registers lie (hopper_sums.py); likewise dK and dV of a column block that several programs work on
(hopper_hands.py). Or, where rows are few, one program works on a whole head, and all sums are its own. hopper_ends.py has the
rest.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma_wait,
)

from ioaware.kernels.attention.hopper.backward_mainloop import row_block, start_dq, unseen_row_block
from ioaware.kernels.attention.hopper.backward_tile_scheduler import (
    BLOCK_N,
    hands_of_program,
    place_of,
    rows_of,
    tile_of_run,
    tiles_of_hand,
)
from ioaware.kernels.attention.hopper.codegen import turn, unknown_zero
from ioaware.kernels.attention.hopper.column_blocks import SIDE
from ioaware.kernels.attention.hopper.dq_accumulator import ADD, PIECE, add, put, write_dq
from ioaware.kernels.attention.hopper.gluon_compat import SINCE_3_9, tma_load, tma_store, tma_store_wait, warpgroup_barrier


@gluon.jit
def produce(
    Q, K, V, dO, Rows, memory, signals, sizes, group, deal,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, WHOLE: gl.constexpr, SPLIT: gl.constexpr, BLOCK_M: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    """Keeps the tiles in shared memory filled: Q, dO and the rows' numbers turn round STAGES slots."""
    q_tiles, do_tiles, row_tiles, k_tiles, v_tiles, _, _ = memory
    q_full, do_full, rows_full, row_block_empty, k_full, v_full, kv_empty, _ = signals
    _, _, heads, _ = sizes
    lanes = gl.arange(0, 2 * BLOCK_M, gl.BlockedLayout([BLOCK_M // 64], [32], [4], [0]))
    loaded = 0  # row blocks so far
    t, row_blocks = 0, deal[0]  # tiles so far, and row blocks of a head
    for r in range(hands_of_program(sizes, deal, CAUSAL, WHOLE, SPLIT)):
        for part in range(tiles_of_hand(r, deal, CAUSAL, WHOLE, SPLIT)):
            batch, kv_head, col = place_of(r, part, 0, sizes, deal, CAUSAL, WHOLE, SPLIT)
            first, end = rows_of(r, part, col, sizes, deal, CAUSAL, MASKED, SPLIT, BLOCK_M)
            mbarrier.wait(kv_empty, (t + 1) & 1)  # both consumers' matmuls have read the K and V of the tile before
            mbarrier.expect(k_full, K.block_type.nbytes)
            tma_load(K, [batch, kv_head, col, 0], k_full, k_tiles.index(0))
            for member in range(group):
                head = kv_head * group + member
                rows = Rows + (batch * heads * group + head).to(gl.int64) * row_blocks * (2 * BLOCK_M) + lanes
                for i in range(first, end):
                    slot, phase = turn(loaded, STAGES)
                    mbarrier.wait(row_block_empty.index(slot), phase ^ 1)  # both consumers are done with it
                    mbarrier.expect(q_full.index(slot), Q.block_type.nbytes)
                    tma_load(Q, [batch, head, i * BLOCK_M, 0], q_full.index(slot), q_tiles.index(slot))
                    if (member == 0) & (i == first):
                        mbarrier.expect(v_full, V.block_type.nbytes)
                        tma_load(V, [batch, kv_head, col, 0], v_full, v_tiles.index(0))
                    mbarrier.expect(do_full.index(slot), dO.block_type.nbytes)
                    tma_load(dO, [batch, head, i * BLOCK_M, 0], do_full.index(slot), do_tiles.index(slot))
                    # From the L2 always: what an L1 kept would be found there now and then, and nobody could count it.
                    row_tiles.index(slot).store(gl.load(rows + i * (2 * BLOCK_M), cache_modifier=".cg"))
                    mbarrier.arrive(rows_full.index(slot))  # the log-sum-exp and D are there
                    loaded += 1
            t += 1


@gluon.jit
def write(
    C: gl.constexpr, x, X, tile, r, part, zero, sizes, deal,
    CAUSAL: gl.constexpr, WHOLE: gl.constexpr, SPLIT: gl.constexpr,
):  # fmt: skip
    """Writes a consumer's 64 rows of a gradient of this column block through a tile in shared memory."""
    batch, kv_head, col = place_of(r, part, zero, sizes, deal, CAUSAL, WHOLE, SPLIT)
    tma_store_wait(0)  # the last store has read the tile
    warpgroup_barrier()  # ... which every warp must know
    tile.reshape(x.shape).store(x.to(tile.dtype))
    fence_async_shared()  # what was stored to the tile, before TMA reads it
    warpgroup_barrier()
    tma_store(X, [batch, kv_head, col + C * SIDE, 0], tile)


@gluon.jit
def consume(
    C: gl.constexpr, dQ, dK, dV, Sums, Parts, memory, signals, sizes, group, deal, scale, scale_log2,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, WHOLE: gl.constexpr, SPLIT: gl.constexpr, HOLD: gl.constexpr,
    BLOCK_M: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """dK and dV of keys 64 C to 64 C + 63 of each tile, and half of what the tile adds to dQ."""
    q_tiles, _, _, k_tiles, _, ds_tiles, out_tiles = memory
    _, _, _, _, k_full, v_full, kv_empty, ds_full = signals
    _, _, heads, _ = sizes
    HEAD_DIM: gl.constexpr = q_tiles.shape[4]
    BLOCK: gl.constexpr = BLOCK_M * HEAD_DIM
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    HELD: gl.constexpr = HOLD and not (SINCE_3_9 and (BLOCK_M == SIDE or (SPLIT and MASKED == 2)))  # it has no registers there
    UNSEEN: gl.constexpr = C * (MASKED == 1)
    """Row blocks that see keys of the other consumer only."""
    done = gl.to_tensor(0)  # row blocks so far
    latest, free = gl.to_tensor(2), gl.to_tensor(0)  # of three tiles of dS
    t, row_blocks = 0, deal[0]  # tiles so far, and row blocks of a head
    for r in range(hands_of_program(sizes, deal, CAUSAL, WHOLE, SPLIT)):
        for part in range(tiles_of_hand(r, deal, CAUSAL, WHOLE, SPLIT)):
            batch, kv_head, col = place_of(r, part, 0, sizes, deal, CAUSAL, WHOLE, SPLIT)
            here = unknown_zero(part if WHOLE else done)  # so that addresses and such are computed for each tile
            first, end = rows_of(r, part, col, sizes, deal, CAUSAL, MASKED, SPLIT, BLOCK_M)
            dk = gl.zeros([SIDE, HEAD_DIM], gl.float32, ACC)
            dv = gl.zeros([SIDE, HEAD_DIM], gl.float32, ACC)
            query_head = gl.program_id(0) * group if WHOLE else (batch * heads + kv_head) * group
            sums = Sums + (query_head * row_blocks + first).to(gl.int64) * BLOCK + C * PIECE
            state = (dk, dv, sums, first, done, latest, free)
            mbarrier.wait(k_full, t & 1)  # K has landed
            mbarrier.wait(v_full, t & 1)  # V has landed
            k_held = here
            if HELD:  # half of K or all of it, of which the tensor cores then read less from shared memory
                k = k_tiles.index(here).reshape([BLOCK_N, HEAD_DIM]).slice(C * SIDE, SIDE, dim=0)
                k_held = k.slice(0, 64, dim=1).load(gl.DotOperandLayout(0, S, 2))
            tile = (col + C * SIDE, first, end, first + row_blocks - end, part == 0, here, k_held)
            blocks = (end - first) * group
            # The first row block by itself, which is faster; with twice the rows it is slower, and Triton 3.9 spills.
            if BLOCK_M == SIDE and (MASKED == 1 or SPLIT or not SINCE_3_9):
                if UNSEEN:
                    state = unseen_row_block(C, state, memory, signals, STAGES)
                state = row_block(
                    C,
                    UNSEEN,
                    MASKED > 0,
                    UNSEEN,
                    state,
                    tile,
                    memory,
                    signals,
                    sizes,
                    scale_log2,
                    CAUSAL,
                    WHOLE,
                    HELD,
                    BLOCK_M,
                    STAGES,
                )
                for _block in range(1 + UNSEEN, blocks):
                    state = row_block(
                        C, True, MASKED == 2, True, state, tile, memory, signals, sizes, scale_log2,
                        CAUSAL, WHOLE, HELD, BLOCK_M, STAGES,
                    )  # fmt: skip
            else:
                for block in range(blocks):
                    state = row_block(
                        C, True, MASKED > 0, block > 0, state, tile, memory, signals, sizes, scale_log2,
                        CAUSAL, WHOLE, HELD, BLOCK_M, STAGES,
                    )  # fmt: skip
            dk, dv, sums, _, done, latest, free = state
            last, phase = turn(done - 1, 2)
            mbarrier.wait(ds_full.index(last), phase)  # all of the last dS is there
            k_both = k_tiles.index(unknown_zero(done)).reshape([BLOCK_N, HEAD_DIM])
            if HELD or SPLIT:
                here = unknown_zero(done)  # another one: there are no registers for addresses kept since the first
            put(sums, warpgroup_mma_wait(0, [start_dq(C, ds_tiles.index(latest), k_both, BLOCK_M)]), part == 0, here, WHOLE)
            mbarrier.arrive(kv_empty)  # all matmuls have read K and V
            # Each with numbers of its own: shared ones would be kept in registers until the next tile; where that would spill
            # them, no addresses in the tiles are kept either.
            AGAIN: gl.constexpr = (
                (WHOLE or SINCE_3_9)
                if BLOCK_M == 2 * SIDE
                else (SINCE_3_9 and not CAUSAL and (MASKED == 2 or not (WHOLE or SPLIT)))
            )
            in_part = False
            if SPLIT:
                in_part = r == deal[5]
            if in_part:
                parts = Parts + (4 * tile_of_run(part, unknown_zero(done), deal) + C) * (SIDE * HEAD_DIM)
                add(parts, dk, here, ADD)
                add(parts + BLOCK_N * HEAD_DIM, dv, here, ADD)
            else:
                zero = unknown_zero(heads + r if HELD or SPLIT else heads)
                again = unknown_zero(done) if AGAIN else zero
                write(C, dv, dV, out_tiles.index(C + again), r, part, zero, sizes, deal, CAUSAL, WHOLE, SPLIT)
                zero = unknown_zero(group)
                again = unknown_zero(t) if AGAIN else zero
                write(C, dk * scale, dK, out_tiles.index(C + again), r, part, zero, sizes, deal, CAUSAL, WHOLE, SPLIT)
            t += 1
        if WHOLE:
            batch, kv_head, _ = place_of(r, 0, 0, sizes, deal, CAUSAL, WHOLE, SPLIT)
            sums = Sums + (gl.program_id(0) * group * row_blocks).to(gl.int64) * BLOCK + C * PIECE
            write_dq(
                C, dQ, sums, out_tiles.index(C), batch, kv_head, row_blocks, group, scale, unknown_zero(done), BLOCK_M, BLOCK
            )
    tma_store_wait(0)  # shared memory outlives its readers


@gluon.jit(
    do_not_specialize=[
        "seq_len",
        "kv_len",
        "heads",
        "batch_heads",
        "group",
        "row_blocks",
        "blocks",
        "pairs",
        "paired",
        "others",
        "before",
        "rest",
        "share",
    ]
)
def hopper_backward_kernel(
    Q, K, V, dO, dQ, dK, dV, Rows, Sums, Parts, seq_len, kv_len, heads, batch_heads, group,
    row_blocks, blocks, pairs, paired, others, before, rest, share, scale, scale_log2,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, WHOLE: gl.constexpr, SPLIT: gl.constexpr, HOLD: gl.constexpr,
    BLOCK_M: gl.constexpr, STAGES: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """dK and dV of column blocks of 128, dealt over the programs, and what they add to dQ. Q, K, V, dO, dK, dV: descriptors of
    [batch, heads, rows, head_dim], with boxes of BLOCK_M rows (Q, dO), 128 (K, V) and 64 (dK, dV); heads and batch_heads count
    key heads, each of `group` query heads. Rows [batch heads, row blocks, 2, BLOCK_M] and Sums [batch heads, row blocks,
    BLOCK_M HEAD_DIM] in float32, as hopper_ends.prepare_kernel leaves them, and Parts, where SPLIT the sums [column blocks of
    the last round, dK and dV, 128 HEAD_DIM]. BLOCK_M HEAD_DIM is twice PIECE."""
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
        mbarrier.init(q_full.index(i), 1)  # the producer, when its bytes have landed
        mbarrier.init(do_full.index(i), 1)
        mbarrier.init(rows_full.index(i), 1)
        mbarrier.init(row_block_empty.index(i), 2)  # both consumers
    mbarrier.init(k_full, 1)
    mbarrier.init(v_full, 1)
    mbarrier.init(kv_empty, 2)
    for i in gl.static_range(2):
        mbarrier.init(ds_full.index(i), 2)  # both consumers
    fence_async_shared()  # the barriers' first state, before TMA arrives at them
    memory = (q_tiles, do_tiles, row_tiles, k_tiles, v_tiles, ds_tiles, out_tiles)
    signals = (q_full, do_full, rows_full, row_block_empty, k_full, v_full, kv_empty, ds_full)
    sizes, deal = (seq_len, kv_len, heads, batch_heads), (row_blocks, blocks, pairs, paired, others, before, rest, share)
    gl.warp_specialize(
        [
            (produce, (Q, K, V, dO, Rows, memory, signals, sizes, group, deal,
                       CAUSAL, MASKED, WHOLE, SPLIT, BLOCK_M, STAGES)),
            (consume, (0, dQ, dK, dV, Sums, Parts, memory, signals, sizes, group, deal, scale, scale_log2,
                       CAUSAL, MASKED, WHOLE, SPLIT, HOLD, BLOCK_M, STAGES)),
            (consume, (1, dQ, dK, dV, Sums, Parts, memory, signals, sizes, group, deal, scale, scale_log2,
                       CAUSAL, MASKED, WHOLE, SPLIT, HOLD, BLOCK_M, STAGES)),
        ],
        [4, 4], [REGISTERS, REGISTERS],
    )  # fmt: skip
