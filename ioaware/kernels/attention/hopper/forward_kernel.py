"""Compute attention in FlashAttention-2's order on Hopper.

A producer warpgroup loads, consumer warpgroups of 64 query rows compute.

Shah et al. 2024, arXiv 2407.08608 (FlashAttention-3), Algorithm 1 per consumer and row block, S_j = Q K_j^T:
    S_0;  softmax(S_0) -> P_0
    for each further column block j:
        start S_j = Q K_j^T;  start O += P_{j-1} V_{j-1}         the tensor cores execute them in this order
        wait for S_j, then for O;  exponentials -> P_j           while the other consumers' matmuls run
    O += P_last V_last;  store O / l and the log-sum-exp
P_0 subtracts the rows' maxima; later blocks subtract the maximum in use, and O is rescaled only in the few blocks where that is
far below the true one (softmax.py). Exponentials before the wait for O, FlashAttention-3's Algorithm 2, are slower here
(docs/lab-notes/hopper-attention.md).
Column blocks run from the last visible one to the first, so that masked blocks come first. If the causal diagonal begins at a
multiple of 64, only the first is masked; otherwise a branch in the main loop masks the second.
With PINGPONG, consumers issue these two matmuls one after the other (warp_scheduler_barrier.py).
CTAs are persistent: while O of one tile is stored, Q, K and V of the next are loading.
Loads and stores are TMA: rows beyond seq_len or kv_len and columns beyond head_dim read as zeros and are not written.
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

from ioaware.kernels.attention.constants import LOG2_E
from ioaware.kernels.attention.hopper.codegen import opaque_zero, ring_slot_phase
from ioaware.kernels.attention.hopper.gluon_compat import SINCE_3_7, tma_load, tma_store, tma_store_wait, warpgroup_barrier
from ioaware.kernels.attention.hopper.softmax import declare_predicate, join_halves, row_sums, scaled_max, softmax_step
from ioaware.kernels.attention.hopper.tile_scheduler import Sizes, num_tiles, num_work_items, tile_coordinates, work_item
from ioaware.kernels.attention.hopper.warp_scheduler_barrier import warp_scheduler_barrier_arrive, warp_scheduler_barrier_sync

ROWS = gl.constexpr(64)
"""Query rows of one consumer: the M of one wgmma."""


class Tiles(NamedTuple):
    """Shared memory of a CTA.

    It holds the rings of Q, K and V, and O's tiles, which are Q's unless SEPARATE_O_SMEM.
    """

    q: Any
    k: Any
    v: Any
    o: Any


class Barriers(NamedTuple):
    """An mbarrier per ring slot.

    It is full when the load has landed, empty when every reader is done with it.
    """

    q_full: Any
    q_empty: Any
    k_full: Any
    k_empty: Any
    v_full: Any
    v_empty: Any


@gluon.jit
def num_visible_blocks(first_row, last_row, sizes, CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr):
    """Return how many column blocks the rows up to last_row see.

    It is at least one, fully masked where they see none.
    """
    keys = sizes.kv_len
    if CAUSAL:
        keys = gl.maximum(gl.minimum(last_row + 1 + sizes.kv_len - sizes.seq_len, sizes.kv_len), 1)
        keys = keys if first_row < sizes.seq_len else 1
    return gl.cdiv(keys, BLOCK_N)


@gluon.jit
def load_q(C: gl.constexpr, Q, tiles, barriers, t, batch, head, row, CONSUMERS: gl.constexpr, Q_SLOTS: gl.constexpr):
    """Load consumer C's Q of the t-th tile, which begins at `row`."""
    slot, lap = (t * CONSUMERS + C) % Q_SLOTS, (t * CONSUMERS + C) // Q_SLOTS
    mbarrier.wait(barriers.q_empty.index(slot), (lap + 1) & 1)  # the reader of this slot's last Q is done
    mbarrier.expect(barriers.q_full.index(slot), Q.block_type.nbytes)
    tma_load(Q, [batch, head, row + C * ROWS, 0], barriers.q_full.index(slot), tiles.q.index(slot))


@gluon.jit
def load(
    Q, K, V, tiles, barriers, sizes, group,
    CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CONSUMERS: gl.constexpr, Q_SLOTS: gl.constexpr,
    SEPARATE_O_SMEM: gl.constexpr,
):  # fmt: skip
    """Load tiles into shared memory.

    K and V go to rings of STAGES slots, all consumers' Q to a ring of Q_SLOTS.
    """
    BLOCK_M: gl.constexpr = ROWS * CONSUMERS
    loaded = 0  # column blocks so far
    t = 0  # tiles so far
    for r in range(num_work_items(sizes, CAUSAL, BLOCK_M)):
        for second in range(num_tiles(work_item(r), sizes, CAUSAL, BLOCK_M)):
            batch, head, row = tile_coordinates(work_item(r), second, sizes, CAUSAL, BLOCK_M)
            # A Q that waits until an O is stored must not delay K for the consumer whose Q has landed.
            EARLY: gl.constexpr = CONSUMERS if SEPARATE_O_SMEM else 1
            for c in gl.static_range(EARLY):
                load_q(c, Q, tiles, barriers, t, batch, head, row, CONSUMERS, Q_SLOTS)
            kv_head = head // group
            end = num_visible_blocks(row, row + BLOCK_M - 1, sizes, CAUSAL, BLOCK_N)
            for i in range(end):
                col = (end - 1 - i) * BLOCK_N
                slot, lap = loaded % STAGES, loaded // STAGES + 1
                mbarrier.wait(barriers.k_empty.index(slot), lap & 1)  # every Q K^T has read this slot's last K
                mbarrier.expect(barriers.k_full.index(slot), K.block_type.nbytes)
                tma_load(K, [batch, kv_head, col, 0], barriers.k_full.index(slot), tiles.k.index(slot))
                if i == 0:
                    for c in gl.static_range(EARLY, CONSUMERS):
                        load_q(c, Q, tiles, barriers, t, batch, head, row, CONSUMERS, Q_SLOTS)
                mbarrier.wait(barriers.v_empty.index(slot), lap & 1)  # every P V has read this slot's last V
                mbarrier.expect(barriers.v_full.index(slot), V.block_type.nbytes)
                tma_load(V, [batch, kv_head, col, 0], barriers.v_full.index(slot), tiles.v.index(slot))
                loaded += 1
            t += 1


@gluon.jit
def apply_mask(s, row, col, zero, sizes, CAUSAL: gl.constexpr):
    """Set scores of masked keys to -inf.

    With an opaque_zero, a thread's row and column numbers are computed here. Otherwise they are kept from the kernel's start,
    with a constant added at each place that masks.
    """
    S: gl.constexpr = s.type.layout
    # A thread holds the columns 8 i + {0, 1} + its even number below 8. With that number on the right, the left is a
    # constant of each register, and no registers are spent on column numbers.
    lanes = gl.arange(0, s.shape[1], gl.SliceLayout(0, S))
    if CAUSAL:
        rows = row + gl.arange(0, s.shape[0], gl.SliceLayout(1, S)) * (1 + zero)
        visible = gl.minimum(sizes.kv_len, rows + (sizes.kv_len - sizes.seq_len) + 1) - col
        return gl.where((lanes & -7)[None, :] < visible[:, None] - (lanes & 6)[None, :], s, float("-inf"))
    return gl.where((lanes & -7)[None, :] < (sizes.kv_len - col - (lanes & 6) * (1 + zero))[None, :], s, float("-inf"))


@gluon.jit
def start_scores(q, k_tiles, slot, KEYS: gl.constexpr):
    """Start S = Q K^T for the first KEYS keys of one column block."""
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
    k = k_tiles.index(slot).reshape([k_tiles.shape[3], q.shape[1]]).slice(0, KEYS)
    s = gl.zeros([ROWS, KEYS], gl.float32, S)
    return warpgroup_mma(q, k.permute((1, 0)), s, use_acc=False, is_async=True)


@gluon.jit
def mainloop(
    o, l, m, p, q, tiles, barriers, used, unmasked, end, row, sizes, scale_log2,
    C: gl.constexpr, MASKED: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CONSUMERS: gl.constexpr,
    PINGPONG: gl.constexpr,
):  # fmt: skip
    """Return O, l, m and the last P after the column blocks end - 1, ..., 0.

    The first `unmasked` of them need no mask.
    """
    for i in range(end):
        block = end - 1 - i
        zero = opaque_zero(used) if MASKED == 2 and SINCE_3_7 else 0
        slot, phase = ring_slot_phase(used, STAGES)
        slot_before, phase_before = ring_slot_phase(used - 1, STAGES)
        v = tiles.v.index(slot_before).reshape([BLOCK_N, q.shape[1]])
        mbarrier.wait(barriers.k_full.index(slot), phase)  # K_j has landed
        if PINGPONG:
            warp_scheduler_barrier_sync(C)  # the consumer before has issued its matmuls
        s = start_scores(q, tiles.k, slot, BLOCK_N)
        mbarrier.wait(barriers.v_full.index(slot_before), phase_before)  # V_{j-1} has landed
        o = warpgroup_mma(p, v, o, is_async=True)
        if PINGPONG:
            warp_scheduler_barrier_arrive(C, CONSUMERS)
        s = warpgroup_mma_wait(1, [s])  # S_j is complete; P V may still run
        mbarrier.arrive(barriers.k_empty.index(slot))  # Q K_j^T has read K_j
        if MASKED == 2:
            if block >= unmasked:
                s = apply_mask(s, row, block * BLOCK_N, zero, sizes, True)
        o = warpgroup_mma_wait(0, [o])
        mbarrier.arrive(barriers.v_empty.index(slot_before))  # P V has read V_{j-1}
        p, o, l, m = softmax_step(s, p, o, l, m, scale_log2, C, MASKED == 2)
        used += 1
    return o, l, m, p, used


@gluon.jit
def epilogue(
    C: gl.constexpr, o, l, m, O, Lse, o_tile, item, second, sizes, scale_log2,
    CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr,
):  # fmt: skip
    """Store O / l and the log-sum-exp of consumer C's rows of a work item's tile."""
    batch, head, row = tile_coordinates(item, second, sizes, CAUSAL, BLOCK_M)  # again: cheaper than registers to keep it
    row += C * ROWS
    l = gl.where(l == 0.0, 1.0, l)  # no visible key: O = 0 and log-sum-exp = -inf
    rows = row + gl.arange(0, ROWS, l.type.layout)
    lse = m * (scale_log2 / LOG2_E) + gl.log(l)
    gl.store(Lse + (batch * sizes.heads + head).to(gl.int64) * sizes.seq_len + rows, lse, mask=rows < sizes.seq_len)
    inverse = gl.convert_layout(1.0 / l, gl.SliceLayout(1, o.type.layout))
    tma_store_wait(0)  # the last store has read o_tile
    warpgroup_barrier()  # all warps, after that wait and done with Q, which may share O's tile
    o_tile.reshape(o.shape).store((o * inverse[:, None]).to(o_tile.dtype))
    fence_async_shared()  # what was stored to o_tile, before TMA reads it
    warpgroup_barrier()
    tma_store(O, [batch, head, row, 0], o_tile)


@gluon.jit
def skip_unseen_blocks(
    C: gl.constexpr, barriers, row, used, sizes,
    CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CONSUMERS: gl.constexpr, PINGPONG: gl.constexpr,
):  # fmt: skip
    """Return consumer C's first row and its number of visible column blocks.

    The tile is at `row`.

    Blocks that are visible to later consumers only are released unread, each with a warp-scheduler barrier that is not used.
    """
    end = num_visible_blocks(row, row + ROWS * CONSUMERS - 1, sizes, CAUSAL, BLOCK_N)
    if CAUSAL and C < CONSUMERS - 1:
        loaded = end
        end = num_visible_blocks(row, row + C * ROWS + ROWS - 1, sizes, CAUSAL, BLOCK_N)
        for _ in range(loaded - end):
            slot, phase = ring_slot_phase(used, STAGES)
            mbarrier.wait(barriers.k_full.index(slot), phase)  # an arrival counts for the load that it follows
            mbarrier.arrive(barriers.k_empty.index(slot))
            mbarrier.wait(barriers.v_full.index(slot), phase)
            mbarrier.arrive(barriers.v_empty.index(slot))
            used += 1
            if PINGPONG:
                warp_scheduler_barrier_sync(C)
                warp_scheduler_barrier_arrive(C, CONSUMERS)
    return row + C * ROWS, end, used


@gluon.jit
def rematerialize(sizes, n):
    """Return the sizes, recomputed from n >= 0.

    Why: the compiler cannot prove that they do not change with n. So expressions of them are computed where they are written.
    Else they would be computed once for all warps before the loop, where no register is left for them.
    """
    zero = opaque_zero(n)
    return Sizes(
        gl.maximum(sizes.seq_len, zero), gl.maximum(sizes.kv_len, zero), sizes.heads, sizes.batch_heads, sizes.inverse,
        sizes.heads_inverse, gl.maximum(sizes.paired, zero), sizes.others_inverse,
    )  # fmt: skip


@gluon.jit
def mma(
    C: gl.constexpr, work,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, HALVED: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr,
    CONSUMERS: gl.constexpr, Q_SLOTS: gl.constexpr, SEPARATE_O_SMEM: gl.constexpr, PINGPONG: gl.constexpr,
):  # fmt: skip
    """Compute softmax(Q K^T) V for rows 64 C to 64 C + 63 of each tile."""
    O, Lse, tiles, barriers, sizes, scale_log2 = work
    HEAD_DIM: gl.constexpr = tiles.q.shape[4]
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    P: gl.constexpr = gl.DotOperandLayout(0, ACC, 2)
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    ROW: gl.constexpr = gl.SliceLayout(1, SCORES)
    KEYS: gl.constexpr = BLOCK_N // 2 if HALVED and C == 0 else BLOCK_N  # of its first column block that may be visible
    if PINGPONG and C == CONSUMERS - 1:
        warp_scheduler_barrier_arrive(C, CONSUMERS)  # consumer 0 is the first
    declare_predicate(C)
    used = gl.to_tensor(0)  # column blocks so far
    t = gl.to_tensor(0)  # tiles so far
    for r in range(num_work_items(rematerialize(sizes, sizes.heads), CAUSAL, ROWS * CONSUMERS)):
        for second in range(num_tiles(work_item(r), sizes, CAUSAL, ROWS * CONSUMERS)):
            now = rematerialize(sizes, t)
            _batch, _head, tile_row = tile_coordinates(work_item(r), second, now, CAUSAL, ROWS * CONSUMERS)
            row, end, used = skip_unseen_blocks(C, barriers, tile_row, used, now, CAUSAL, BLOCK_N, STAGES, CONSUMERS, PINGPONG)
            q_slot, q_lap = (t * CONSUMERS + C) % Q_SLOTS, (t * CONSUMERS + C) // Q_SLOTS
            q = tiles.q.index(q_slot).reshape([ROWS, HEAD_DIM])
            slot, phase = ring_slot_phase(used, STAGES)
            mbarrier.wait(barriers.q_full.index(q_slot), q_lap & 1)  # Q has landed
            mbarrier.wait(barriers.k_full.index(slot), phase)  # K_0 has landed
            s = warpgroup_mma_wait(0, [start_scores(q, tiles.k, slot, KEYS)])
            mbarrier.arrive(barriers.k_empty.index(slot))  # Q K_0^T has read K_0
            if MASKED > 0:
                zero = opaque_zero(used) if SINCE_3_7 and (MASKED == 2 or not CAUSAL) else 0
                s = apply_mask(s, row, (end - 1) * BLOCK_N, zero, now, CAUSAL)
            m = gl.max(s, 1)  # [ROWS]
            e = gl.exp2(s * scale_log2 - scaled_max(m, scale_log2, MASKED > 0)[:, None])
            l = row_sums(e)
            m = gl.convert_layout(m, ROW)
            p = e.to(tiles.q.dtype)
            if KEYS < BLOCK_N:
                p = join_halves(p, gl.full(p.shape, 0, p.dtype, p.type.layout))
            p = gl.convert_layout(p, P)
            used += 1

            o = gl.zeros([ROWS, HEAD_DIM], gl.float32, ACC)
            unmasked = gl.minimum(gl.maximum(row + 1 + now.kv_len - now.seq_len, 0), now.kv_len) // BLOCK_N
            o, l, m, p, used = mainloop(
                o, l, m, p, q, tiles, barriers, used, unmasked, end - 1, row, now, scale_log2, C, MASKED, BLOCK_N,
                STAGES, CONSUMERS, PINGPONG,
            )  # fmt: skip
            if SEPARATE_O_SMEM:
                mbarrier.arrive(barriers.q_empty.index(q_slot))  # the last Q K^T has read Q

            slot, phase = ring_slot_phase(used - 1, STAGES)
            mbarrier.wait(barriers.v_full.index(slot), phase)  # V_last has landed
            o = warpgroup_mma(p, tiles.v.index(slot).reshape([BLOCK_N, HEAD_DIM]), o, is_async=True)
            o = warpgroup_mma_wait(0, [o])
            mbarrier.arrive(barriers.v_empty.index(slot))  # P V has read V_last
            o_tile = tiles.o.index(C if SEPARATE_O_SMEM else q_slot)
            l = gl.convert_layout(gl.sum(l, 1), ROW)  # [ROWS]
            epilogue(C, o, l, m, O, Lse, o_tile, work_item(r), second, now, scale_log2, CAUSAL, ROWS * CONSUMERS)
            if not SEPARATE_O_SMEM:
                tma_store_wait(0)  # TMA has read O from where a later Q goes
                mbarrier.arrive(barriers.q_empty.index(q_slot))
            t += 1
    tma_store_wait(0)  # shared memory must outlive its readers


SIZES = ["seq_len", "kv_len", "heads", "batch_heads", "group", "inverse", "heads_inverse", "paired", "others_inverse"]


@gluon.jit(do_not_specialize=SIZES)
def hopper_forward_kernel(
    Q, K, V, O, Lse, seq_len, kv_len, heads, batch_heads, group, inverse, heads_inverse, paired, others_inverse,
    scale_log2,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, HALVED: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr,
    CONSUMERS: gl.constexpr, REGISTERS: gl.constexpr, Q_SLOTS: gl.constexpr, SEPARATE_O_SMEM: gl.constexpr,
    PINGPONG: gl.constexpr,
):  # fmt: skip
    """Compute attention of tiles of 64 CONSUMERS rows, scheduled over persistent CTAs.

    Q, K, V, O: descriptors of [batch, heads, rows, head_dim]. Lse [batch, heads, seq_len] float32.
    inverse, heads_inverse, others_inverse: inverse_of items_per_head, of heads, of the heads that are not paired.
    MASKED: how many column blocks may have keys masked from a consumer's rows: 0, 1 (the first) or 2 (the first two).
    HALVED: of two consumers, the first sees at most half of its first column block, where the diagonal begins.
    PINGPONG: consumers issue their matmuls one after the other (warp_scheduler_barrier.py).
    """
    HEAD_DIM: gl.constexpr = Q.block_shape[3]
    q_tiles = gl.allocate_shared_memory(Q.dtype, [Q_SLOTS, 1, 1, ROWS, HEAD_DIM], Q.layout)
    k_tiles = gl.allocate_shared_memory(K.dtype, [STAGES, 1, 1, BLOCK_N, HEAD_DIM], K.layout)
    v_tiles = gl.allocate_shared_memory(V.dtype, [STAGES, 1, 1, BLOCK_N, HEAD_DIM], V.layout)
    o_tiles = q_tiles  # without tiles of its own, O is stored through Q's
    if SEPARATE_O_SMEM:
        o_tiles = gl.allocate_shared_memory(O.dtype, [CONSUMERS, 1, 1, ROWS, HEAD_DIM], O.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [Q_SLOTS, 1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [Q_SLOTS, 1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(Q_SLOTS):
        mbarrier.init(q_full.index(i), 1)  # TMA, when its bytes have landed
        mbarrier.init(q_empty.index(i), 1)  # the consumer of that Q
    for i in gl.static_range(STAGES):
        mbarrier.init(k_full.index(i), 1)
        mbarrier.init(k_empty.index(i), CONSUMERS)  # every consumer
        mbarrier.init(v_full.index(i), 1)
        mbarrier.init(v_empty.index(i), CONSUMERS)
    fence_async_shared()  # initialised barriers, visible before TMA arrives at them
    tiles = Tiles(q_tiles, k_tiles, v_tiles, o_tiles)
    barriers = Barriers(q_full, q_empty, k_full, k_empty, v_full, v_empty)
    sizes = Sizes(seq_len, kv_len, heads, batch_heads, inverse, heads_inverse, paired, others_inverse)
    work = (O, Lse, tiles, barriers, sizes, scale_log2)
    if CONSUMERS == 2:
        gl.warp_specialize(
            [
                (load, (Q, K, V, tiles, barriers, sizes, group, CAUSAL, BLOCK_N, STAGES, 2, Q_SLOTS, SEPARATE_O_SMEM)),
                (mma, (0, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 2, Q_SLOTS, SEPARATE_O_SMEM, PINGPONG)),
                (mma, (1, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 2, Q_SLOTS, SEPARATE_O_SMEM, PINGPONG)),
            ],
            [4, 4], [REGISTERS, REGISTERS],
        )  # fmt: skip
    elif CONSUMERS == 3:
        gl.warp_specialize(
            [
                (load, (Q, K, V, tiles, barriers, sizes, group, CAUSAL, BLOCK_N, STAGES, 3, Q_SLOTS, SEPARATE_O_SMEM)),
                (mma, (0, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 3, Q_SLOTS, SEPARATE_O_SMEM, PINGPONG)),
                (mma, (1, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 3, Q_SLOTS, SEPARATE_O_SMEM, PINGPONG)),
                (mma, (2, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 3, Q_SLOTS, SEPARATE_O_SMEM, PINGPONG)),
            ],
            [4, 4, 4], [REGISTERS, REGISTERS, REGISTERS],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (load, (Q, K, V, tiles, barriers, sizes, group, CAUSAL, BLOCK_N, STAGES, 4, Q_SLOTS, SEPARATE_O_SMEM)),
                (mma, (0, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 4, Q_SLOTS, SEPARATE_O_SMEM, PINGPONG)),
                (mma, (1, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 4, Q_SLOTS, SEPARATE_O_SMEM, PINGPONG)),
                (mma, (2, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 4, Q_SLOTS, SEPARATE_O_SMEM, PINGPONG)),
                (mma, (3, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 4, Q_SLOTS, SEPARATE_O_SMEM, PINGPONG)),
            ],
            [4, 4, 4, 4], [REGISTERS, REGISTERS, REGISTERS, REGISTERS],
        )  # fmt: skip
