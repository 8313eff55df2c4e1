"""Compute dK and dV on Hopper without atomics.

Of the same 64 keys, one consumer warpgroup computes dV, the other dK.

Dao 2023, arXiv 2307.08691, Algorithm 2, for one column block and its row blocks i, transposed, so that keys are rows of wgmma:
    consumer of dV:  S^T = K Q_i^T;   P^T = exp(S^T - lse_i), sent to the other consumer;  dV += P^T dO_i
    consumer of dK:  dP^T = V dO_i^T; dS^T = P^T * (dP^T - D_i);                           dK += dS^T Q_i
Accumulators of 64 keys by 256 fill half the registers of a consumer, so each consumer has one. Both have the same matmuls, and
while one computes on elements, the other's matmuls run. Each starts its matmul for block i before its accumulation of block
i - 1, so that the accumulation runs while block i is awaited and processed.
dQ has a separate kernel (dq_kernel.py): seven matmuls per pair of blocks instead of five, but every gradient has one writer.
So results are bitwise reproducible, and nothing is accumulated in memory.
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

from ioaware.kernels.attention.hopper.backward_pass.column_blocks import (
    SIDE,
    Sizes,
    apply_mask_transposed,
    column_tile,
    num_column_tiles,
    visible_row_blocks,
)
from ioaware.kernels.attention.hopper.codegen import opaque_zero, ring_slot_phase_pow2
from ioaware.kernels.attention.hopper.gluon_compat import tma_load, tma_store, tma_store_wait, warpgroup_barrier


class Tiles(NamedTuple):
    """Shared memory: the rings of Q and dO, one K, one V, and two P^T."""

    q: Any
    do: Any
    k: Any
    v: Any
    p: Any


class Barriers(NamedTuple):
    """An mbarrier per tile.

    It is full when the data has landed, empty when every reader is done with it.
    """

    q_full: Any
    q_empty: Any
    do_full: Any
    do_empty: Any
    k_full: Any
    k_empty: Any
    v_full: Any
    v_empty: Any
    p_full: Any
    p_empty: Any


class Operands(NamedTuple):
    """Tiles and barriers of one consumer.

    It computes X = A B_i^T, then accumulator += Y C_i with Y made of X.
    """

    a: Any
    a_full: Any
    a_empty: Any
    b: Any
    b_full: Any
    b_empty: Any
    c: Any
    c_full: Any
    c_empty: Any


@gluon.jit
def load(Q, K, V, dO, tiles, barriers, sizes, group, CAUSAL: gl.constexpr, STAGES: gl.constexpr):
    """Load tiles into shared memory.

    Q and dO go to rings of STAGES slots, K and V once per column block.
    """
    loaded = 0  # row blocks so far
    for t in range(num_column_tiles(sizes, CAUSAL, SIDE)):
        batch, kv_head, col = column_tile(t, sizes, CAUSAL, SIDE)
        first, end = visible_row_blocks(col, sizes, CAUSAL, SIDE)
        mbarrier.wait(barriers.k_empty, (t + 1) & 1)  # the last tile's dV is stored through K's tile
        mbarrier.expect(barriers.k_full, K.block_type.nbytes)
        tma_load(K, [batch, kv_head, col, 0], barriers.k_full, tiles.k.index(0))
        for member in range(group):
            head = kv_head * group + member
            for i in range(first, end):
                slot, phase = ring_slot_phase_pow2(loaded, STAGES)
                mbarrier.wait(barriers.q_empty.index(slot), phase ^ 1)  # both consumers have read this slot's last Q
                mbarrier.expect(barriers.q_full.index(slot), Q.block_type.nbytes)
                tma_load(Q, [batch, head, i * SIDE, 0], barriers.q_full.index(slot), tiles.q.index(slot))
                if (member == 0) & (i == first):
                    mbarrier.wait(barriers.v_empty, (t + 1) & 1)  # the last tile's dK is stored through V's tile
                    mbarrier.expect(barriers.v_full, V.block_type.nbytes)
                    tma_load(V, [batch, kv_head, col, 0], barriers.v_full, tiles.v.index(0))
                mbarrier.wait(barriers.do_empty.index(slot), phase ^ 1)  # both consumers have read this slot's last dO
                mbarrier.expect(barriers.do_full.index(slot), dO.block_type.nbytes)
                tma_load(dO, [batch, head, i * SIDE, 0], barriers.do_full.index(slot), tiles.do.index(slot))
                loaded += 1


@gluon.jit
def rows_of_head(Rows, batch, kv_head, first, end, sizes, group, WHICH: gl.constexpr, S: gl.constexpr):
    """Return pointers to the log-sum-exp (WHICH 0) or D (WHICH 1).

    They point to the first row block, for the columns of S^T.
    """
    block = (batch * sizes.heads + kv_head) * group * end + first
    return Rows + block.to(gl.int64) * (2 * SIDE) + WHICH * SIDE + gl.arange(0, SIDE, gl.SliceLayout(0, S))


@gluon.jit
def next_rows(rows, i, first, end):
    """Advance to the next row block, of this head or of the next in the group.

    Return its pointers and number.
    """
    i += 1
    rows += 2 * SIDE
    if i == end:
        i = first
        rows += first * (2 * SIDE)
    return rows, i


@gluon.jit
def start_transposed(a_tiles, b_tile, done, S: gl.constexpr):
    """Start A B^T.

    A is the only tile of its kind, and its descriptors would be kept in registers without opaque_zero.
    """
    HEAD_DIM: gl.constexpr = b_tile.shape[3]
    a = a_tiles.index(opaque_zero(done)).reshape([SIDE, HEAD_DIM])
    b = b_tile.reshape([SIDE, HEAD_DIM])
    return warpgroup_mma(a, b.permute((1, 0)), gl.zeros([SIDE, SIDE], gl.float32, S), use_acc=False, is_async=True)


@gluon.jit
def send_p(p, tiles, barriers, done):
    """Store P^T for the consumer of dK."""
    slot, phase = ring_slot_phase_pow2(done, 2)
    mbarrier.wait(barriers.p_empty.index(slot), phase ^ 1)  # it has read this slot's last P
    tiles.p.index(slot).store(p)
    mbarrier.arrive(barriers.p_full.index(slot))  # P is stored


@gluon.jit
def receive_p(tiles, barriers, done, S: gl.constexpr):
    """Load P^T of the consumer of dV."""
    slot, phase = ring_slot_phase_pow2(done, 2)
    mbarrier.wait(barriers.p_full.index(slot), phase)  # P is stored
    p = tiles.p.index(slot).load(S)
    mbarrier.arrive(barriers.p_empty.index(slot))  # P is loaded
    return p.to(gl.float32)


@gluon.jit
def operands(tiles, barriers, DV: gl.constexpr):
    """Return the operands of the consumer of dV or of dK.

    A, B, C are K, Q, dO for dV, and V, dO, Q for dK.
    """
    if DV:
        return Operands(
            tiles.k, barriers.k_full, barriers.k_empty, tiles.q, barriers.q_full, barriers.q_empty,
            tiles.do, barriers.do_full, barriers.do_empty,
        )  # fmt: skip
    return Operands(
        tiles.v, barriers.v_full, barriers.v_empty, tiles.do, barriers.do_full, barriers.do_empty,
        tiles.q, barriers.q_full, barriers.q_empty,
    )  # fmt: skip


@gluon.jit
def weights(
    x, statistic, tiles, barriers, done, key, row, sizes, scale, S: gl.constexpr, DV: gl.constexpr, CAUSAL: gl.constexpr,
    MASK: gl.constexpr,
):  # fmt: skip
    """Return P^T = 2^(scale S^T - lse), zero where masked, and send it (DV).

    Or dS^T = P^T (dP^T - D).
    """
    if DV:
        if MASK:
            x = apply_mask_transposed(x, key, row, sizes, CAUSAL)
        p = gl.exp2(x * scale - statistic[None, :]).to(tiles.q.dtype)
        send_p(p, tiles, barriers, done)
        return p
    return (receive_p(tiles, barriers, done, S) * (x - statistic[None, :])).to(tiles.q.dtype)


@gluon.jit
def epilogue(x, X, tile, batch, head, row, empty):
    """Store 64 rows of a gradient through a tile that only this consumer has read.

    The tile is empty afterwards.
    """
    warpgroup_barrier()  # the matmuls of all warps have read the tile
    tile.reshape(x.shape).store(x.to(tile.dtype))
    fence_async_shared()  # what was stored to the tile, before TMA reads it
    warpgroup_barrier()
    tma_store(X, [batch, head, row, 0], tile)
    tma_store_wait(0)
    mbarrier.arrive(empty)  # TMA has read the tile


@gluon.jit
def mma(
    DV: gl.constexpr, Gradient, Rows, tiles, barriers, sizes, group, scale,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Compute dV (DV) or dK of this CTA's column blocks.

    scale is that of S in base 2 (DV), or of dK.
    """
    use = operands(tiles, barriers, DV)
    HEAD_DIM: gl.constexpr = tiles.q.shape[4]
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, SIDE, 16])
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    P: gl.constexpr = gl.DotOperandLayout(0, ACC, 2)
    done = gl.to_tensor(0)  # row blocks so far
    for t in range(num_column_tiles(sizes, CAUSAL, SIDE)):
        batch, kv_head, col = column_tile(t, sizes, CAUSAL, SIDE)
        first, end = visible_row_blocks(col, sizes, CAUSAL, SIDE)
        i = first
        rows = rows_of_head(Rows, batch, kv_head, first, end, sizes, group, 0 if DV else 1, S)
        statistic = gl.load(rows)
        slot, phase = ring_slot_phase_pow2(done, STAGES)
        mbarrier.wait(use.a_full, t & 1)  # A has landed
        mbarrier.wait(use.b_full.index(slot), phase)  # B_0 has landed
        x = warpgroup_mma_wait(0, [start_transposed(use.a, use.b.index(slot), done, S)])
        mbarrier.arrive(use.b_empty.index(slot))  # A B_0^T has read B_0
        y = weights(x, statistic, tiles, barriers, done, col, i * SIDE, sizes, scale, S, DV, CAUSAL, MASKED > 0)
        done += 1
        acc = gl.zeros([SIDE, HEAD_DIM], gl.float32, ACC)
        for _block in range((end - first) * group - 1):
            rows, i = next_rows(rows, i, first, end)
            statistic = gl.load(rows)  # arrives while the matmuls run
            slot, phase = ring_slot_phase_pow2(done, STAGES)
            before, phase_before = ring_slot_phase_pow2(done - 1, STAGES)
            mbarrier.wait(use.b_full.index(slot), phase)  # B_i has landed
            x = start_transposed(use.a, use.b.index(slot), done, S)
            mbarrier.wait(use.c_full.index(before), phase_before)  # C_{i-1} has landed
            c = use.c.index(before).reshape([SIDE, HEAD_DIM])
            acc = warpgroup_mma(gl.convert_layout(y, P), c, acc, is_async=True)
            x = warpgroup_mma_wait(1, [x])  # X_i is complete; Y C may still run
            mbarrier.arrive(use.b_empty.index(slot))  # A B_i^T has read B_i
            acc = warpgroup_mma_wait(0, [acc])
            mbarrier.arrive(use.c_empty.index(before))  # Y C has read C_{i-1}
            y = weights(x, statistic, tiles, barriers, done, col, i * SIDE, sizes, scale, S, DV, CAUSAL, MASKED == 2)
            done += 1
        last, phase = ring_slot_phase_pow2(done - 1, STAGES)
        mbarrier.wait(use.c_full.index(last), phase)  # the last C has landed
        c = use.c.index(last).reshape([SIDE, HEAD_DIM])
        acc = warpgroup_mma_wait(0, [warpgroup_mma(gl.convert_layout(y, P), c, acc, is_async=True)])
        mbarrier.arrive(use.c_empty.index(last))  # Y C has read it
        epilogue(acc if DV else acc * scale, Gradient, use.a.index(0), batch, kv_head, col, use.a_empty)


@gluon.jit(do_not_specialize=["seq_len", "kv_len", "heads", "batch_heads", "group"])
def dkdv_kernel(
    Q, K, V, dO, dK, dV, Rows, seq_len, kv_len, heads, batch_heads, group, scale, scale_log2,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, STAGES: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Compute dK and dV of column blocks of 64 keys, scheduled over persistent CTAs.

    Q, K, V, dO, dK, dV: descriptors of [batch, heads, rows, head_dim] with boxes of 64 rows. heads and batch_heads count key
    heads, each of `group` query heads. Rows: float32 [batch heads, row blocks, 2, 64], the log-sum-exp in base 2 and
    D = rowsum(dO * O).
    """
    HEAD_DIM: gl.constexpr = Q.block_shape[3]
    q_tiles = gl.allocate_shared_memory(Q.dtype, [STAGES, 1, 1, SIDE, HEAD_DIM], Q.layout)
    do_tiles = gl.allocate_shared_memory(dO.dtype, [STAGES, 1, 1, SIDE, HEAD_DIM], dO.layout)
    k_tiles = gl.allocate_shared_memory(K.dtype, [1, 1, 1, SIDE, HEAD_DIM], K.layout)
    v_tiles = gl.allocate_shared_memory(V.dtype, [1, 1, 1, SIDE, HEAD_DIM], V.layout)
    P: gl.constexpr = gl.NVMMASharedLayout.get_default_for([SIDE, SIDE], Q.dtype)
    p_tiles = gl.allocate_shared_memory(Q.dtype, [2, SIDE, SIDE], P)
    q_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    do_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    do_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    p_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    p_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(q_full.index(i), 1)  # TMA, when its bytes have landed
        mbarrier.init(q_empty.index(i), 2)  # both consumers
        mbarrier.init(do_full.index(i), 1)
        mbarrier.init(do_empty.index(i), 2)
    for i in gl.static_range(2):
        mbarrier.init(p_full.index(i), 1)  # the consumer of dV
        mbarrier.init(p_empty.index(i), 1)  # the consumer of dK
    mbarrier.init(k_full, 1)
    mbarrier.init(k_empty, 1)  # the consumer of dV, which alone reads K
    mbarrier.init(v_full, 1)
    mbarrier.init(v_empty, 1)  # the consumer of dK, which alone reads V
    fence_async_shared()  # initialised barriers, visible before TMA arrives at them
    tiles = Tiles(q_tiles, do_tiles, k_tiles, v_tiles, p_tiles)
    barriers = Barriers(q_full, q_empty, do_full, do_empty, k_full, k_empty, v_full, v_empty, p_full, p_empty)
    sizes = Sizes(seq_len, kv_len, heads, batch_heads)
    gl.warp_specialize(
        [
            (load, (Q, K, V, dO, tiles, barriers, sizes, group, CAUSAL, STAGES)),
            (mma, (True, dV, Rows, tiles, barriers, sizes, group, scale_log2, CAUSAL, MASKED, STAGES)),
            (mma, (False, dK, Rows, tiles, barriers, sizes, group, scale, CAUSAL, MASKED, STAGES)),
        ],
        [4, 4], [REGISTERS, REGISTERS],
    )  # fmt: skip
