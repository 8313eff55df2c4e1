"""dK and dV on Hopper without atomics: one consumer warpgroup computes dV, the other dK, of the same 64 keys.

Dao 2023, arXiv 2307.08691, Algorithm 2, for one column block and its row blocks i, transposed, so that keys are rows of wgmma:
    consumer of dV:  S^T = K Q_i^T;   P^T = exp(S^T - lse_i), which it also passes on;   dV += P^T dO_i
    consumer of dK:  dP^T = V dO_i^T; dS^T = P^T * (dP^T - D_i);                         dK += dS^T Q_i
Accumulators of 64 keys by 256 fill half the registers of a consumer, so each has one. Both have as much to multiply, and while
one is busy with exponentials or products of elements, the other's matmuls run. Each starts its matmul for block i before
its accumulation of block i - 1, so that the accumulation runs while block i's numbers are awaited and worked on.
dQ comes from a kernel of its own (hopper_dq.py): seven matmuls a pair of blocks instead of five, but every gradient has one
writer, so that the bits are the same every time, and nothing is accumulated in memory.
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

from ioaware.kernels.attention.hopper.codegen import turn, unknown_zero
from ioaware.kernels.attention.hopper.column_blocks import SIDE, column_tile, column_tiles, masked_columns, rows_that_see
from ioaware.kernels.attention.hopper.gluon_compat import tma_load, tma_store, tma_store_wait, warpgroup_barrier


@gluon.jit
def produce(Q, K, V, dO, memory, signals, sizes, group, CAUSAL: gl.constexpr, STAGES: gl.constexpr):
    """Keeps the tiles in shared memory filled: Q and dO turn round STAGES slots each."""
    q_tiles, do_tiles, k_tiles, v_tiles, _ = memory
    q_full, q_empty, do_full, do_empty, k_full, k_empty, v_full, v_empty, _, _ = signals
    loaded = 0  # row blocks so far
    for t in range(column_tiles(sizes, CAUSAL, SIDE)):
        batch, kv_head, col = column_tile(t, sizes, CAUSAL, SIDE)
        first, end = rows_that_see(col, sizes, CAUSAL, SIDE)
        mbarrier.wait(k_empty, (t + 1) & 1)  # dV of the tile before has left through the slot of K
        mbarrier.expect(k_full, K.block_type.nbytes)
        tma_load(K, [batch, kv_head, col, 0], k_full, k_tiles.index(0))
        for member in range(group):
            head = kv_head * group + member
            for i in range(first, end):
                slot, phase = turn(loaded, STAGES)
                mbarrier.wait(q_empty.index(slot), phase ^ 1)  # both consumers' matmuls have read the Q that was here
                mbarrier.expect(q_full.index(slot), Q.block_type.nbytes)
                tma_load(Q, [batch, head, i * SIDE, 0], q_full.index(slot), q_tiles.index(slot))
                if (member == 0) & (i == first):
                    mbarrier.wait(v_empty, (t + 1) & 1)  # dK of the tile before has left through the slot of V
                    mbarrier.expect(v_full, V.block_type.nbytes)
                    tma_load(V, [batch, kv_head, col, 0], v_full, v_tiles.index(0))
                mbarrier.wait(do_empty.index(slot), phase ^ 1)  # both consumers' matmuls have read the dO that was here
                mbarrier.expect(do_full.index(slot), dO.block_type.nbytes)
                tma_load(dO, [batch, head, i * SIDE, 0], do_full.index(slot), do_tiles.index(slot))
                loaded += 1


@gluon.jit
def rows_of_head(Rows, batch, kv_head, first, end, sizes, group, WHICH: gl.constexpr, S: gl.constexpr):
    """Where the log-sum-exp (WHICH 0) or D (WHICH 1) of the first row block is, for the columns of S^T."""
    _, _, heads, _ = sizes
    block = (batch * heads + kv_head) * group * end + first
    return Rows + block.to(gl.int64) * (2 * SIDE) + WHICH * SIDE + gl.arange(0, SIDE, gl.SliceLayout(0, S))


@gluon.jit
def next_rows(rows, i, first, end):
    """The next row block, of this head or of the next one in the group, and where its numbers are."""
    i += 1
    rows += 2 * SIDE
    if i == end:
        i = first
        rows += first * (2 * SIDE)
    return rows, i


@gluon.jit
def start_transposed(a_tiles, b_tile, done, S: gl.constexpr):
    """Starts A B^T. A is the only tile of its kind: its descriptors would be kept in registers."""
    HEAD_DIM: gl.constexpr = b_tile.shape[3]
    a = a_tiles.index(unknown_zero(done)).reshape([SIDE, HEAD_DIM])
    b = b_tile.reshape([SIDE, HEAD_DIM])
    return warpgroup_mma(a, b.permute((1, 0)), gl.zeros([SIDE, SIDE], gl.float32, S), use_acc=False, is_async=True)


@gluon.jit
def weights(s, lse, key, row, sizes, scale_log2, dtype: gl.constexpr, CAUSAL: gl.constexpr, MASK: gl.constexpr):
    """P^T = 2^(scale_log2 S^T - lse), zero where a row does not see a key."""
    if MASK:
        s = masked_columns(s, key, row, sizes, CAUSAL)
    return gl.exp2(s * scale_log2 - lse[None, :]).to(dtype)


@gluon.jit
def give(p, p_tiles, p_full, p_empty, done):
    """Passes P^T to the consumer of dK."""
    slot, phase = turn(done, 2)
    mbarrier.wait(p_empty.index(slot), phase ^ 1)  # it has read the P that was here
    p_tiles.index(slot).store(p)
    mbarrier.arrive(p_full.index(slot))  # P is there


@gluon.jit
def take(p_tiles, p_full, p_empty, done, S: gl.constexpr):
    """P^T from the consumer of dV."""
    slot, phase = turn(done, 2)
    mbarrier.wait(p_full.index(slot), phase)  # P is there
    p = p_tiles.index(slot).load(S)
    mbarrier.arrive(p_empty.index(slot))  # it has been read
    return p.to(gl.float32)


@gluon.jit
def write(x, X, tile, batch, head, row, empty):
    """Writes 64 rows of a gradient through a tile that its own consumer alone has read; empty afterwards."""
    warpgroup_barrier()  # the matmuls of all warps have read the tile
    tile.reshape(x.shape).store(x.to(tile.dtype))
    fence_async_shared()  # what was stored to the tile, before TMA reads it
    warpgroup_barrier()
    tma_store(X, [batch, head, row, 0], tile)
    tma_store_wait(0)
    mbarrier.arrive(empty)  # TMA has read the tile


@gluon.jit
def consume_for_dv(
    dV, Rows, memory, signals, sizes, group, scale_log2, CAUSAL: gl.constexpr, MASKED: gl.constexpr, STAGES: gl.constexpr
):
    """S^T, P^T and dV."""
    q_tiles, do_tiles, k_tiles, _, p_tiles = memory
    q_full, q_empty, do_full, do_empty, k_full, k_empty, _, _, p_full, p_empty = signals
    HEAD_DIM: gl.constexpr = q_tiles.shape[4]
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, SIDE, 16])
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    P: gl.constexpr = gl.DotOperandLayout(0, ACC, 2)
    done = gl.to_tensor(0)  # row blocks so far
    for t in range(column_tiles(sizes, CAUSAL, SIDE)):
        batch, kv_head, col = column_tile(t, sizes, CAUSAL, SIDE)
        first, end = rows_that_see(col, sizes, CAUSAL, SIDE)
        i = first
        rows = rows_of_head(Rows, batch, kv_head, first, end, sizes, group, 0, S)
        lse = gl.load(rows)
        slot, phase = turn(done, STAGES)
        mbarrier.wait(k_full, t & 1)  # K has landed
        mbarrier.wait(q_full.index(slot), phase)  # Q_0 has landed
        s = warpgroup_mma_wait(0, [start_transposed(k_tiles, q_tiles.index(slot), done, S)])
        mbarrier.arrive(q_empty.index(slot))  # K Q_0^T has read Q_0
        p = weights(s, lse, col, i * SIDE, sizes, scale_log2, q_tiles.dtype, CAUSAL, MASKED > 0)
        give(p, p_tiles, p_full, p_empty, done)
        done += 1
        dv = gl.zeros([SIDE, HEAD_DIM], gl.float32, ACC)
        for _block in range((end - first) * group - 1):
            rows, i = next_rows(rows, i, first, end)
            lse = gl.load(rows)  # arrives while the matmuls run
            slot, phase = turn(done, STAGES)
            before, phase_before = turn(done - 1, STAGES)
            mbarrier.wait(q_full.index(slot), phase)  # Q_i has landed
            s = start_transposed(k_tiles, q_tiles.index(slot), done, S)
            mbarrier.wait(do_full.index(before), phase_before)  # dO_{i-1} has landed
            do = do_tiles.index(before).reshape([SIDE, HEAD_DIM])
            dv = warpgroup_mma(gl.convert_layout(p, P), do, dv, is_async=True)
            s = warpgroup_mma_wait(1, [s])  # S_i is there; P dO may still run
            mbarrier.arrive(q_empty.index(slot))  # K Q_i^T has read Q_i
            dv = warpgroup_mma_wait(0, [dv])
            mbarrier.arrive(do_empty.index(before))  # P dO has read dO_{i-1}
            p = weights(s, lse, col, i * SIDE, sizes, scale_log2, q_tiles.dtype, CAUSAL, MASKED == 2)
            give(p, p_tiles, p_full, p_empty, done)
            done += 1
        last, phase = turn(done - 1, STAGES)
        mbarrier.wait(do_full.index(last), phase)  # the last dO has landed
        do = do_tiles.index(last).reshape([SIDE, HEAD_DIM])
        dv = warpgroup_mma_wait(0, [warpgroup_mma(gl.convert_layout(p, P), do, dv, is_async=True)])
        mbarrier.arrive(do_empty.index(last))  # P dO has read it
        write(dv, dV, k_tiles.index(0), batch, kv_head, col, k_empty)


@gluon.jit
def consume_for_dk(dK, Rows, memory, signals, sizes, group, scale, CAUSAL: gl.constexpr, STAGES: gl.constexpr):
    """dP^T, dS^T and dK."""
    q_tiles, do_tiles, _, v_tiles, p_tiles = memory
    q_full, q_empty, do_full, do_empty, _, _, v_full, v_empty, p_full, p_empty = signals
    HEAD_DIM: gl.constexpr = q_tiles.shape[4]
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, SIDE, 16])
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    P: gl.constexpr = gl.DotOperandLayout(0, ACC, 2)
    done = gl.to_tensor(0)  # row blocks so far
    for t in range(column_tiles(sizes, CAUSAL, SIDE)):
        batch, kv_head, col = column_tile(t, sizes, CAUSAL, SIDE)
        first, end = rows_that_see(col, sizes, CAUSAL, SIDE)
        i = first
        rows = rows_of_head(Rows, batch, kv_head, first, end, sizes, group, 1, S)
        delta = gl.load(rows)
        slot, phase = turn(done, STAGES)
        mbarrier.wait(v_full, t & 1)  # V has landed
        mbarrier.wait(do_full.index(slot), phase)  # dO_0 has landed
        dp = warpgroup_mma_wait(0, [start_transposed(v_tiles, do_tiles.index(slot), done, S)])
        mbarrier.arrive(do_empty.index(slot))  # V dO_0^T has read dO_0
        ds = (take(p_tiles, p_full, p_empty, done, S) * (dp - delta[None, :])).to(q_tiles.dtype)
        done += 1
        dk = gl.zeros([SIDE, HEAD_DIM], gl.float32, ACC)
        for _block in range((end - first) * group - 1):
            rows, i = next_rows(rows, i, first, end)
            delta = gl.load(rows)  # arrives while the matmuls run
            slot, phase = turn(done, STAGES)
            before, phase_before = turn(done - 1, STAGES)
            mbarrier.wait(do_full.index(slot), phase)  # dO_i has landed
            dp = start_transposed(v_tiles, do_tiles.index(slot), done, S)
            mbarrier.wait(q_full.index(before), phase_before)  # Q_{i-1} has landed
            q = q_tiles.index(before).reshape([SIDE, HEAD_DIM])
            dk = warpgroup_mma(gl.convert_layout(ds, P), q, dk, is_async=True)
            dp = warpgroup_mma_wait(1, [dp])  # dP_i is there; dS Q may still run
            mbarrier.arrive(do_empty.index(slot))  # V dO_i^T has read dO_i
            dk = warpgroup_mma_wait(0, [dk])
            mbarrier.arrive(q_empty.index(before))  # dS Q has read Q_{i-1}
            ds = (take(p_tiles, p_full, p_empty, done, S) * (dp - delta[None, :])).to(q_tiles.dtype)
            done += 1
        last, phase = turn(done - 1, STAGES)
        mbarrier.wait(q_full.index(last), phase)  # the last Q has landed
        q = q_tiles.index(last).reshape([SIDE, HEAD_DIM])
        dk = warpgroup_mma_wait(0, [warpgroup_mma(gl.convert_layout(ds, P), q, dk, is_async=True)])
        mbarrier.arrive(q_empty.index(last))  # dS Q has read it
        write(dk * scale, dK, v_tiles.index(0), batch, kv_head, col, v_empty)


@gluon.jit(do_not_specialize=["seq_len", "kv_len", "heads", "batch_heads", "group"])
def dkdv_kernel(
    Q, K, V, dO, dK, dV, Rows, seq_len, kv_len, heads, batch_heads, group, scale, scale_log2,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, STAGES: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """dK and dV of column blocks of 64, dealt over the programs. Q, K, V, dO, dK, dV: descriptors of [batch, heads, rows,
    head_dim] with boxes of 64 rows; heads and batch_heads count key heads, each of `group` query heads. Rows: float32
    [batch heads, row blocks, 2, 64], the log-sum-exp in base 2 and D = rowsum(dO * O)."""
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
        mbarrier.init(q_full.index(i), 1)  # the producer, when its bytes have landed
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
    fence_async_shared()  # the barriers' first state, before TMA arrives at them
    memory = (q_tiles, do_tiles, k_tiles, v_tiles, p_tiles)
    signals = (q_full, q_empty, do_full, do_empty, k_full, k_empty, v_full, v_empty, p_full, p_empty)
    sizes = (seq_len, kv_len, heads, batch_heads)
    gl.warp_specialize(
        [
            (produce, (Q, K, V, dO, memory, signals, sizes, group, CAUSAL, STAGES)),
            (consume_for_dv, (dV, Rows, memory, signals, sizes, group, scale_log2, CAUSAL, MASKED, STAGES)),
            (consume_for_dk, (dK, Rows, memory, signals, sizes, group, scale, CAUSAL, STAGES)),
        ],
        [4, 4], [REGISTERS, REGISTERS],
    )  # fmt: skip
