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
dQ sums over the keys of both consumers. One row block late, it finds the other's half of dS there, and neither waits; the first
row block's matmul is for nothing. dQ's sums are float32 in global memory, to which all column blocks add (so its last bits
vary), in the order in which an accumulator's registers lie: each instruction adds 512 adjacent bytes, and nothing is shuffled.
hopper_ends.py has the rest.
"""

# The names are the paper's, and parameters of a Gluon function have no Python types.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportConstantRedefinition=false
# pyright: reportCallIssue=false, reportArgumentType=false, reportOperatorIssue=false, reportAssignmentType=false
# pyright: reportGeneralTypeIssues=false
from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from ioaware.kernels.attention.gluon_names import tma_load, tma_store, tma_store_wait, warpgroup_barrier
from ioaware.kernels.attention.hopper_columns import SIDE, column_tile, column_tiles, masked_columns, rows_that_see
from ioaware.kernels.attention.hopper_numbers import turn, unknown_zero, widened

BLOCK_N = gl.constexpr(128)
"""Keys of a program: 64 for each of two consumers."""
PIECE = gl.constexpr(4096)
"""Numbers of dQ that a consumer adds for a row block: 64 rows by 64 columns."""
# Four registers of an accumulator at the address of the first; every output of an asm must be written.
ADD = gl.constexpr("red.global.add.v4.f32 [$4], {$8, $9, $10, $11};\n" + "".join(f"mov.b32 ${i}, 0;\n" for i in range(4)))


@gluon.jit
def produce(
    Q, K, V, dO, Rows, memory, signals, sizes, group, CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr, STAGES: gl.constexpr
):
    """Keeps the tiles in shared memory filled: Q, dO and the rows' numbers turn round STAGES slots."""
    q_tiles, do_tiles, row_tiles, k_tiles, v_tiles, _, _ = memory
    q_full, do_full, rows_full, row_block_empty, k_full, v_full, kv_empty, _ = signals
    _, _, heads, _ = sizes
    lanes = gl.arange(0, 2 * BLOCK_M, gl.BlockedLayout([BLOCK_M // 64], [32], [4], [0]))
    loaded = 0  # row blocks so far
    for t in range(column_tiles(sizes, CAUSAL, BLOCK_N)):
        batch, kv_head, col = column_tile(t, sizes, CAUSAL, BLOCK_N)
        first, end = rows_that_see(col, sizes, CAUSAL, BLOCK_M)
        mbarrier.wait(kv_empty, (t + 1) & 1)  # both consumers' matmuls have read the K and V of the tile before
        mbarrier.expect(k_full, K.block_type.nbytes)
        tma_load(K, [batch, kv_head, col, 0], k_full, k_tiles.index(0))
        for member in range(group):
            head = kv_head * group + member
            rows = Rows + (batch * heads * group + head).to(gl.int64) * end * (2 * BLOCK_M) + lanes
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
                # From the L2 always: what an L1 kept of them would be found there now and then, and nobody could count it.
                row_tiles.index(slot).store(gl.load(rows + i * (2 * BLOCK_M), cache_modifier=".cg"))
                mbarrier.arrive(rows_full.index(slot))  # the log-sum-exp and D are there
                loaded += 1


@gluon.jit
def start_transposed(a, b, BLOCK_M: gl.constexpr):
    """Starts A B^T."""
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    return warpgroup_mma(a, b.permute((1, 0)), gl.zeros([SIDE, BLOCK_M], gl.float32, S), use_acc=False, is_async=True)


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
def add(sums, dq, zero):
    """Adds dQ's 64 by 64 to its piece of the sums, whose order is that of dQ's registers (hopper_ends.finish_kernel)."""
    row = gl.arange(0, 64, gl.SliceLayout(1, dq.type.layout))[:, None]
    col = gl.arange(0, 64, gl.SliceLayout(0, dq.type.layout))[None, :]
    thread = (row >> 4) * 32 + (row & 7) * 4 + ((col >> 1) & 3)
    register = (col >> 3) * 512 + ((row >> 3) & 1) * 2 + (col & 1)
    where = sums.to(gl.int64) + (thread * (1 + zero)).to(gl.int64) * 16 + register.to(gl.int64) * 4
    gl.inline_asm_elementwise(ADD, "=r,=r,=r,=r,l,l,l,l,r,r,r,r", [where, dq], gl.int32, is_pure=False, pack=4)


@gluon.jit
def next_sums(sums, i, first, BLOCK: gl.constexpr):
    """The sums of the next row block, which is block i of this head or, where that is the first, of the next in the group."""
    sums += BLOCK
    if i == first:
        sums += first * BLOCK
    return sums


@gluon.jit
def write(C: gl.constexpr, x, X, out_tiles, t, zero, sizes, CAUSAL: gl.constexpr):
    """Writes a consumer's 64 rows of a gradient of its t-th tile through shared memory."""
    tile = out_tiles.index(C + zero)
    batch, kv_head, col = column_tile(t + zero, sizes, CAUSAL, BLOCK_N)
    tma_store_wait(0)  # the last store has read the tile
    warpgroup_barrier()  # ... which every warp must know
    tile.reshape(x.shape).store(x.to(tile.dtype))
    fence_async_shared()  # what was stored to the tile, before TMA reads it
    warpgroup_barrier()
    tma_store(X, [batch, kv_head, col + C * SIDE, 0], tile)


@gluon.jit
def consume(
    C: gl.constexpr, dK, dV, Sums, memory, signals, sizes, group, scale, scale_log2,
    CAUSAL: gl.constexpr, MASK: gl.constexpr, BLOCK_M: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """dK and dV of keys 64 C to 64 C + 63 of each tile, and half of what the tile adds to dQ."""
    q_tiles, do_tiles, row_tiles, k_tiles, v_tiles, ds_tiles, out_tiles = memory
    q_full, do_full, rows_full, row_block_empty, k_full, v_full, kv_empty, ds_full = signals
    _, _, heads, _ = sizes
    HEAD_DIM: gl.constexpr = q_tiles.shape[4]
    BLOCK: gl.constexpr = BLOCK_M * HEAD_DIM
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    P: gl.constexpr = gl.DotOperandLayout(0, ACC, 2)
    done = gl.to_tensor(0)  # row blocks so far
    latest, free = gl.to_tensor(2), gl.to_tensor(0)  # of three tiles of dS
    for t in range(column_tiles(sizes, CAUSAL, BLOCK_N)):
        batch, kv_head, col = column_tile(t, sizes, CAUSAL, BLOCK_N)
        first, end = rows_that_see(col, sizes, CAUSAL, BLOCK_M)
        key = col + C * SIDE
        dk = gl.zeros([SIDE, HEAD_DIM], gl.float32, ACC)
        dv = gl.zeros([SIDE, HEAD_DIM], gl.float32, ACC)
        sums = Sums + ((batch * heads + kv_head) * group * end + first).to(gl.int64) * BLOCK + C * PIECE
        i = first
        here = unknown_zero(done)  # so that addresses are computed for each tile
        mbarrier.wait(k_full, t & 1)  # K has landed
        mbarrier.wait(v_full, t & 1)  # V has landed
        for block in range((end - first) * group):
            zero = unknown_zero(done)  # so that descriptors of tiles that never change are computed for each block
            k_both = k_tiles.index(zero).reshape([BLOCK_N, HEAD_DIM])
            k = k_both.slice(C * SIDE, SIDE, dim=0)
            v = v_tiles.index(zero).reshape([BLOCK_N, HEAD_DIM]).slice(C * SIDE, SIDE, dim=0)
            slot, phase = turn(done, STAGES)
            q = q_tiles.index(slot).reshape([BLOCK_M, HEAD_DIM])
            do = do_tiles.index(slot).reshape([BLOCK_M, HEAD_DIM])
            ds_tile = ds_tiles.index(free)

            mbarrier.wait(q_full.index(slot), phase)  # Q_i has landed
            s = start_transposed(k, q, BLOCK_M)
            mbarrier.wait(do_full.index(slot), phase)  # dO_i has landed
            dp = start_transposed(v, do, BLOCK_M)
            s = warpgroup_mma_wait(1, [s])
            if MASK:
                s = masked_columns(s, key, i * BLOCK_M, sizes, CAUSAL)
            mbarrier.wait(rows_full.index(slot), phase)  # the log-sum-exp and D are there
            lse = row_tiles.index(slot).slice(0, BLOCK_M).load(gl.SliceLayout(0, S))
            p = gl.exp2(s * scale_log2 - lse[None, :])
            rounded = p.to(q_tiles.dtype)
            delta = row_tiles.index(slot).slice(BLOCK_M, BLOCK_M).load(gl.SliceLayout(0, S))
            dp = warpgroup_mma_wait(0, [dp])
            # The registers of an accumulator are those of the operand.
            dv = warpgroup_mma(gl.convert_layout(rounded, P), do, dv, is_async=True)
            if BLOCK_M == 128:
                p = widened(rounded)  # there are no registers for both
            ds = (p * (dp - delta[None, :])).to(q_tiles.dtype)

            if block > 0:
                before, phase_before = turn(done - 1, 2)
                # All of dS_{i-1} is there; and the other consumer has waited for dQ_{i-3}, whose dS was in this tile.
                mbarrier.wait(ds_full.index(before), phase_before)
            ds_tile.slice(C * SIDE, SIDE, dim=0).store(ds)
            fence_async_shared()  # what was stored of dS, before the tensor cores read it
            mbarrier.arrive(ds_full.index(done & 1))  # this half of dS_i is there
            dq = start_dq(C, ds_tiles.index(latest), k_both, BLOCK_M)
            latest, free = free, gl.where(free == 2, 0, free + 1)
            dk = warpgroup_mma(gl.convert_layout(ds, P), q, dk, is_async=True)
            dv, dq = warpgroup_mma_wait(1, [dv, dq])
            if block > 0:
                add(sums, dq, here)
                sums = next_sums(sums, i, first, BLOCK)
            dk = warpgroup_mma_wait(0, [dk])
            mbarrier.arrive(row_block_empty.index(slot))  # all matmuls have read Q_i and dO_i, and lse and D are used
            done += 1
            i += 1
            if i == end:  # on to the next head of the group
                i = first
        last, phase = turn(done - 1, 2)
        mbarrier.wait(ds_full.index(last), phase)  # all of the last dS is there
        k_both = k_tiles.index(unknown_zero(done)).reshape([BLOCK_N, HEAD_DIM])
        add(sums, warpgroup_mma_wait(0, [start_dq(C, ds_tiles.index(latest), k_both, BLOCK_M)]), here)
        mbarrier.arrive(kv_empty)  # all matmuls have read K and V
        # Each with numbers of its own: shared ones would be kept in registers until the next tile.
        write(C, dv, dV, out_tiles, t, unknown_zero(heads), sizes, CAUSAL)
        write(C, dk * scale, dK, out_tiles, t, unknown_zero(group), sizes, CAUSAL)
    tma_store_wait(0)  # shared memory outlives its readers


@gluon.jit(do_not_specialize=["seq_len", "kv_len", "heads", "batch_heads", "group"])
def hopper_backward_kernel(
    Q, K, V, dO, dK, dV, Rows, Sums, seq_len, kv_len, heads, batch_heads, group, scale, scale_log2,
    CAUSAL: gl.constexpr, MASK: gl.constexpr, BLOCK_M: gl.constexpr, STAGES: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """dK and dV of column blocks of 128, dealt over the programs, and what they add to dQ. Q, K, V, dO, dK, dV: descriptors of
    [batch, heads, rows, head_dim], with boxes of BLOCK_M rows (Q, dO), 128 (K, V) and 64 (dK, dV); heads and batch_heads count
    key heads, each of `group` query heads. Rows [batch heads, row blocks, 2, BLOCK_M] and Sums [batch heads, row blocks,
    BLOCK_M HEAD_DIM] in float32, as hopper_ends.prepare_kernel leaves them. BLOCK_M HEAD_DIM is twice PIECE."""
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
    sizes = (seq_len, kv_len, heads, batch_heads)
    gl.warp_specialize(
        [
            (produce, (Q, K, V, dO, Rows, memory, signals, sizes, group, CAUSAL, BLOCK_M, STAGES)),
            (consume, (0, dK, dV, Sums, memory, signals, sizes, group, scale, scale_log2, CAUSAL, MASK, BLOCK_M, STAGES)),
            (consume, (1, dK, dV, Sums, memory, signals, sizes, group, scale, scale_log2, CAUSAL, MASK, BLOCK_M, STAGES)),
        ],
        [4, 4], [REGISTERS, REGISTERS],
    )  # fmt: skip
