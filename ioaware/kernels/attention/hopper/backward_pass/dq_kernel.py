"""Compute dQ on Hopper without atomics.

A producer warpgroup loads, two consumers of 64 query rows each visit the columns.

Dao 2023, arXiv 2307.08691, Algorithm 2 with its loops exchanged, for one row block and its column blocks j:
    S = Q K_j^T;  dP = dO V_j^T;  P = exp(S - lse);  dS = P * (dP - D);  dQ += dS K_j
While one consumer computes exponentials, the other's matmuls run. Tiles are scheduled as in the forward kernel.
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

from ioaware.kernels.attention.hopper.backward_pass.column_blocks import SIDE
from ioaware.kernels.attention.hopper.backward_pass.dkdv_kernel import epilogue
from ioaware.kernels.attention.hopper.codegen import opaque_zero, ring_slot_phase_pow2
from ioaware.kernels.attention.hopper.forward_kernel import apply_mask, num_visible_blocks
from ioaware.kernels.attention.hopper.gluon_compat import tma_load
from ioaware.kernels.attention.hopper.tile_scheduler import (
    Sizes,
    inverse_of,
    items_per_head,
    num_work_items,
    tile_coordinates,
    work_item,
)

BLOCK_M = gl.constexpr(128)
"""Query rows of a program: 64 for each of two consumers."""


class Tiles(NamedTuple):
    """Shared memory: each consumer's Q and dO, and the rings of K and V."""

    q: Any
    do: Any
    k: Any
    v: Any


class Barriers(NamedTuple):
    """An mbarrier per tile.

    It is full when the load has landed, empty when every reader is done with it.
    """

    q_full: Any
    q_empty: Any
    k_full: Any
    k_empty: Any
    v_full: Any
    v_empty: Any


@gluon.jit
def load(
    Q, K, V, dO, tiles, barriers, sizes, group,
    CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr, K_STAGES: gl.constexpr, V_STAGES: gl.constexpr,
):  # fmt: skip
    """Load tiles into shared memory: K in a ring of K_STAGES slots, V of V_STAGES."""
    loaded = 0  # column blocks so far
    TILES: gl.constexpr = 2 if CAUSAL else 1  # of a work item
    for t in range(num_work_items(sizes, CAUSAL, BLOCK_M) * TILES):
        batch, head, row = tile_coordinates(work_item(t // TILES), t % TILES, sizes, CAUSAL, BLOCK_M)
        for c in gl.static_range(2):
            mbarrier.wait(barriers.q_empty.index(c), (t + 1) & 1)  # consumer c has stored the last tile's dQ through this Q
            mbarrier.expect(barriers.q_full.index(c), Q.block_type.nbytes + dO.block_type.nbytes)
            tma_load(Q, [batch, head, row + c * SIDE, 0], barriers.q_full.index(c), tiles.q.index(c))
            tma_load(dO, [batch, head, row + c * SIDE, 0], barriers.q_full.index(c), tiles.do.index(c))
        end = num_visible_blocks(row, row + BLOCK_M - 1, sizes, CAUSAL, BLOCK_N)
        for i in range(end):
            col = (end - 1 - i) * BLOCK_N
            slot, phase = ring_slot_phase_pow2(loaded, K_STAGES)
            mbarrier.wait(barriers.k_empty.index(slot), phase ^ 1)  # both consumers' dS K has read this slot's last K
            mbarrier.expect(barriers.k_full.index(slot), K.block_type.nbytes)
            tma_load(K, [batch, head // group, col, 0], barriers.k_full.index(slot), tiles.k.index(slot))
            slot, phase = ring_slot_phase_pow2(loaded, V_STAGES)
            mbarrier.wait(barriers.v_empty.index(slot), phase ^ 1)  # both consumers' dO V^T has read this slot's last V
            mbarrier.expect(barriers.v_full.index(slot), V.block_type.nbytes)
            tma_load(V, [batch, head // group, col, 0], barriers.v_full.index(slot), tiles.v.index(slot))
            loaded += 1


@gluon.jit
def skip_unseen_blocks(
    C: gl.constexpr, barriers, row, used, sizes,
    CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr, K_STAGES: gl.constexpr, V_STAGES: gl.constexpr,
):  # fmt: skip
    """Return consumer C's first row and its number of visible column blocks.

    The tile is at `row`.

    Blocks that are visible to the other consumer only are released unread.
    """
    end = num_visible_blocks(row, row + BLOCK_M - 1, sizes, CAUSAL, BLOCK_N)
    if CAUSAL and C == 0:
        loaded = end
        end = num_visible_blocks(row, row + SIDE - 1, sizes, CAUSAL, BLOCK_N)
        for _ in range(loaded - end):
            slot, phase = ring_slot_phase_pow2(used, K_STAGES)
            mbarrier.wait(barriers.k_full.index(slot), phase)  # an arrival counts for the load that it follows
            mbarrier.arrive(barriers.k_empty.index(slot))
            slot, phase = ring_slot_phase_pow2(used, V_STAGES)
            mbarrier.wait(barriers.v_full.index(slot), phase)
            mbarrier.arrive(barriers.v_empty.index(slot))
            used += 1
    return row + C * SIDE, end, used


@gluon.jit
def add_block(
    C: gl.constexpr, dq, tiles, barriers, used, j, unmasked, row, lse, delta, sizes, scale_log2,
    CAUSAL: gl.constexpr, MASK: gl.constexpr, BLOCK_N: gl.constexpr, K_STAGES: gl.constexpr, V_STAGES: gl.constexpr,
):  # fmt: skip
    """Return dQ + dS K_j.

    MASK: column block j is masked 0 never, 1 always, 2 if it is not below `unmasked`.
    """
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    k_slot, k_phase = ring_slot_phase_pow2(used, K_STAGES)
    v_slot, v_phase = ring_slot_phase_pow2(used, V_STAGES)
    zero = opaque_zero(used)  # descriptors of tiles that never change are recomputed for each block
    q = tiles.q.index(C + zero).reshape([SIDE, dq.shape[1]])
    do = tiles.do.index(C + zero).reshape([SIDE, dq.shape[1]])
    k = tiles.k.index(k_slot).reshape([BLOCK_N, dq.shape[1]])
    v = tiles.v.index(v_slot + zero).reshape([BLOCK_N, dq.shape[1]])
    mbarrier.wait(barriers.k_full.index(k_slot), k_phase)  # K_j has landed
    s = warpgroup_mma(q, k.permute((1, 0)), gl.zeros([SIDE, BLOCK_N], gl.float32, S), use_acc=False, is_async=True)
    mbarrier.wait(barriers.v_full.index(v_slot), v_phase)  # V_j has landed
    dp = warpgroup_mma(do, v.permute((1, 0)), gl.zeros([SIDE, BLOCK_N], gl.float32, S), use_acc=False, is_async=True)
    s = warpgroup_mma_wait(1, [s])  # S is complete; dO V^T may still run
    if MASK == 1:
        s = apply_mask(s, row, j * BLOCK_N, 0, sizes, CAUSAL)
    if MASK == 2:
        if j >= unmasked:
            s = apply_mask(s, row, j * BLOCK_N, 0, sizes, CAUSAL)
    p = gl.exp2(s * scale_log2 - lse[:, None])
    dp = warpgroup_mma_wait(0, [dp])
    mbarrier.arrive(barriers.v_empty.index(v_slot))  # dO V^T has read V_j
    ds = gl.convert_layout((p * (dp - delta[:, None])).to(tiles.q.dtype), gl.DotOperandLayout(0, dq.type.layout, 2))
    dq = warpgroup_mma_wait(0, [warpgroup_mma(ds, k, dq, is_async=True)])
    mbarrier.arrive(barriers.k_empty.index(k_slot))  # dS K has read K_j
    return dq


@gluon.jit
def mma(
    C: gl.constexpr, dQ, Rows, tiles, barriers, sizes, scale, scale_log2,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, BLOCK_N: gl.constexpr, K_STAGES: gl.constexpr, V_STAGES: gl.constexpr,
):  # fmt: skip
    """Compute dQ of rows 64 C to 64 C + 63 of each tile."""
    HEAD_DIM: gl.constexpr = tiles.q.shape[4]
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    used = gl.to_tensor(0)  # column blocks so far
    TILES: gl.constexpr = 2 if CAUSAL else 1  # of a work item
    for t in range(num_work_items(sizes, CAUSAL, BLOCK_M) * TILES):
        batch, head, tile_row = tile_coordinates(work_item(t // TILES), t % TILES, sizes, CAUSAL, BLOCK_M)
        row, end, used = skip_unseen_blocks(C, barriers, tile_row, used, sizes, CAUSAL, BLOCK_N, K_STAGES, V_STAGES)
        blocks = gl.cdiv(sizes.seq_len, SIDE)
        block = (batch * sizes.heads + head) * blocks + gl.minimum(
            row // SIDE, blocks - 1
        )  # rows beyond the last are not written
        rows = Rows + block.to(gl.int64) * (2 * SIDE) + gl.arange(0, SIDE, gl.SliceLayout(1, S))
        lse = gl.load(rows)
        delta = gl.load(rows + SIDE)
        unmasked = gl.minimum(gl.maximum(row + 1 + sizes.kv_len - sizes.seq_len, 0), sizes.kv_len) // BLOCK_N
        dq = gl.zeros([SIDE, HEAD_DIM], gl.float32, ACC)
        mbarrier.wait(barriers.q_full.index(C), t & 1)  # Q and dO have landed
        FIRST: gl.constexpr = 1 if MASKED == 1 else 0  # column blocks before the loop
        if MASKED == 1:
            dq = add_block(
                C, dq, tiles, barriers, used, end - 1, unmasked, row, lse, delta, sizes, scale_log2,
                CAUSAL, 1, BLOCK_N, K_STAGES, V_STAGES,
            )  # fmt: skip
            used += 1
        for i in range(end - FIRST):
            dq = add_block(
                C, dq, tiles, barriers, used, end - FIRST - 1 - i, unmasked, row, lse, delta, sizes, scale_log2,
                CAUSAL, 2 if MASKED == 2 else 0, BLOCK_N, K_STAGES, V_STAGES,
            )  # fmt: skip
            used += 1
        epilogue(dq * scale, dQ, tiles.q.index(C), batch, head, row, barriers.q_empty.index(C))


@gluon.jit(do_not_specialize=["seq_len", "kv_len", "heads", "batch_heads", "group"])
def dq_kernel(
    Q, K, V, dO, dQ, Rows, seq_len, kv_len, heads, batch_heads, group, scale, scale_log2,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, BLOCK_N: gl.constexpr, K_STAGES: gl.constexpr, V_STAGES: gl.constexpr,
    REGISTERS: gl.constexpr,
):  # fmt: skip
    """Compute dQ of tiles of 128 rows, scheduled over persistent CTAs.

    Q, K, V, dO, dQ: descriptors of [batch, heads, rows, head_dim], with boxes of 64 rows, of BLOCK_N rows for K and V.
    Rows: as in dkdv_kernel.
    """
    HEAD_DIM: gl.constexpr = Q.block_shape[3]
    q_tiles = gl.allocate_shared_memory(Q.dtype, [2, 1, 1, SIDE, HEAD_DIM], Q.layout)
    do_tiles = gl.allocate_shared_memory(dO.dtype, [2, 1, 1, SIDE, HEAD_DIM], dO.layout)
    k_tiles = gl.allocate_shared_memory(K.dtype, [K_STAGES, 1, 1, BLOCK_N, HEAD_DIM], K.layout)
    v_tiles = gl.allocate_shared_memory(V.dtype, [V_STAGES, 1, 1, BLOCK_N, HEAD_DIM], V.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [K_STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [K_STAGES, 1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [V_STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [V_STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(q_full.index(i), 1)  # TMA, when its bytes have landed
        mbarrier.init(q_empty.index(i), 1)  # the consumer of that Q and dO
    for i in gl.static_range(K_STAGES):
        mbarrier.init(k_full.index(i), 1)
        mbarrier.init(k_empty.index(i), 2)  # both consumers
    for i in gl.static_range(V_STAGES):
        mbarrier.init(v_full.index(i), 1)
        mbarrier.init(v_empty.index(i), 2)
    fence_async_shared()  # initialised barriers, visible before TMA arrives at them
    tiles = Tiles(q_tiles, do_tiles, k_tiles, v_tiles)
    barriers = Barriers(q_full, q_empty, k_full, k_empty, v_full, v_empty)
    pairs = items_per_head(seq_len, CAUSAL, BLOCK_M)
    others_inverse = 1  # every head is paired
    sizes = Sizes(
        seq_len, kv_len, heads, batch_heads, inverse_of(pairs), inverse_of(heads), batch_heads, others_inverse
    )  # fmt: skip
    gl.warp_specialize(
        [
            (load, (Q, K, V, dO, tiles, barriers, sizes, group, CAUSAL, BLOCK_N, K_STAGES, V_STAGES)),
            (mma, (0, dQ, Rows, tiles, barriers, sizes, scale, scale_log2, CAUSAL, MASKED, BLOCK_N, K_STAGES, V_STAGES)),
            (mma, (1, dQ, Rows, tiles, barriers, sizes, scale, scale_log2, CAUSAL, MASKED, BLOCK_N, K_STAGES, V_STAGES)),
        ],
        [4, 4], [REGISTERS, REGISTERS],
    )  # fmt: skip
