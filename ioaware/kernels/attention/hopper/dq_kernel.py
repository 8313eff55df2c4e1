"""dQ on Hopper without atomics: a producer warpgroup loads, two consumers of 64 query rows each go over the columns.

Dao 2023, arXiv 2307.08691, Algorithm 2, the other way round, for one row block and its column blocks j:
    S = Q K_j^T;  dP = dO V_j^T;  P = exp(S - lse);  dS = P * (dP - D);  dQ += dS K_j
While one consumer is busy with exponentials, the other's matmuls run. Tiles are the forward kernel's (hopper_forward.py).
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
from ioaware.kernels.attention.hopper.column_blocks import SIDE
from ioaware.kernels.attention.hopper.dkdv_kernel import write
from ioaware.kernels.attention.hopper.forward_kernel import blocks_seen, masked
from ioaware.kernels.attention.hopper.gluon_compat import tma_load
from ioaware.kernels.attention.hopper.tile_scheduler import hand_of, hands_of_program, inverse_of, place_of, run_of

BLOCK_M = gl.constexpr(128)
"""Query rows of a program: 64 for each of two consumers."""


@gluon.jit
def produce(
    Q, K, V, dO, memory, signals, sizes, group,
    CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr, K_STAGES: gl.constexpr, V_STAGES: gl.constexpr,
):  # fmt: skip
    """Keeps the tiles in shared memory filled: K turns round K_STAGES slots, V round V_STAGES."""
    q_tiles, do_tiles, k_tiles, v_tiles = memory
    q_full, q_empty, k_full, k_empty, v_full, v_empty = signals
    loaded = 0  # column blocks so far
    TILES: gl.constexpr = 2 if CAUSAL else 1  # of a hand
    for t in range(hands_of_program(sizes, CAUSAL, BLOCK_M) * TILES):
        batch, head, row = place_of(hand_of(t // TILES), t % TILES, sizes, CAUSAL, BLOCK_M)
        for c in gl.static_range(2):
            mbarrier.wait(q_empty.index(c), (t + 1) & 1)  # consumer c's dQ of the tile before has left through its Q
            mbarrier.expect(q_full.index(c), Q.block_type.nbytes + dO.block_type.nbytes)
            tma_load(Q, [batch, head, row + c * SIDE, 0], q_full.index(c), q_tiles.index(c))
            tma_load(dO, [batch, head, row + c * SIDE, 0], q_full.index(c), do_tiles.index(c))
        end = blocks_seen(row, row + BLOCK_M - 1, sizes, CAUSAL, BLOCK_N)
        for i in range(end):
            col = (end - 1 - i) * BLOCK_N
            slot, phase = turn(loaded, K_STAGES)
            mbarrier.wait(k_empty.index(slot), phase ^ 1)  # both consumers' dS K has read the K here
            mbarrier.expect(k_full.index(slot), K.block_type.nbytes)
            tma_load(K, [batch, head // group, col, 0], k_full.index(slot), k_tiles.index(slot))
            slot, phase = turn(loaded, V_STAGES)
            mbarrier.wait(v_empty.index(slot), phase ^ 1)  # both consumers' dO V^T has read the V here
            mbarrier.expect(v_full.index(slot), V.block_type.nbytes)
            tma_load(V, [batch, head // group, col, 0], v_full.index(slot), v_tiles.index(slot))
            loaded += 1


@gluon.jit
def enter(
    C: gl.constexpr, signals, row, used, sizes,
    CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr, K_STAGES: gl.constexpr, V_STAGES: gl.constexpr,
):  # fmt: skip
    """Consumer C's first row in the tile from `row` on and the column blocks it sees; those that only the other sees go back
    to the producer unread."""
    _, _, k_full, k_empty, v_full, v_empty = signals
    end = blocks_seen(row, row + BLOCK_M - 1, sizes, CAUSAL, BLOCK_N)
    if CAUSAL and C == 0:
        loaded = end
        end = blocks_seen(row, row + SIDE - 1, sizes, CAUSAL, BLOCK_N)
        for _ in range(loaded - end):
            slot, phase = turn(used, K_STAGES)
            mbarrier.wait(k_full.index(slot), phase)  # an arrival counts for the load that it follows
            mbarrier.arrive(k_empty.index(slot))
            slot, phase = turn(used, V_STAGES)
            mbarrier.wait(v_full.index(slot), phase)
            mbarrier.arrive(v_empty.index(slot))
            used += 1
    return row + C * SIDE, end, used


@gluon.jit
def add_block(
    C: gl.constexpr, dq, memory, signals, used, j, unmasked, row, lse, delta, sizes, scale_log2,
    CAUSAL: gl.constexpr, MASK: gl.constexpr, BLOCK_N: gl.constexpr, K_STAGES: gl.constexpr, V_STAGES: gl.constexpr,
):  # fmt: skip
    """dQ + dS K_j. MASK: whether column block j is masked: 0 never, 1 always, 2 from the `unmasked`-th on."""
    q_tiles, do_tiles, k_tiles, v_tiles = memory
    _, _, k_full, k_empty, v_full, v_empty = signals
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    k_slot, k_phase = turn(used, K_STAGES)
    v_slot, v_phase = turn(used, V_STAGES)
    zero = unknown_zero(used)  # so that descriptors of tiles that never change are computed for each block
    q = q_tiles.index(C + zero).reshape([SIDE, dq.shape[1]])
    do = do_tiles.index(C + zero).reshape([SIDE, dq.shape[1]])
    k = k_tiles.index(k_slot).reshape([BLOCK_N, dq.shape[1]])
    v = v_tiles.index(v_slot + zero).reshape([BLOCK_N, dq.shape[1]])
    mbarrier.wait(k_full.index(k_slot), k_phase)  # K_j has landed
    s = warpgroup_mma(q, k.permute((1, 0)), gl.zeros([SIDE, BLOCK_N], gl.float32, S), use_acc=False, is_async=True)
    mbarrier.wait(v_full.index(v_slot), v_phase)  # V_j has landed
    dp = warpgroup_mma(do, v.permute((1, 0)), gl.zeros([SIDE, BLOCK_N], gl.float32, S), use_acc=False, is_async=True)
    s = warpgroup_mma_wait(1, [s])  # S is there; dO V^T may still run
    if MASK == 1:
        s = masked(s, row, j * BLOCK_N, 0, sizes, CAUSAL)
    if MASK == 2:
        if j >= unmasked:
            s = masked(s, row, j * BLOCK_N, 0, sizes, CAUSAL)
    p = gl.exp2(s * scale_log2 - lse[:, None])
    dp = warpgroup_mma_wait(0, [dp])
    mbarrier.arrive(v_empty.index(v_slot))  # dO V^T has read V_j
    ds = gl.convert_layout((p * (dp - delta[:, None])).to(q_tiles.dtype), gl.DotOperandLayout(0, dq.type.layout, 2))
    dq = warpgroup_mma_wait(0, [warpgroup_mma(ds, k, dq, is_async=True)])
    mbarrier.arrive(k_empty.index(k_slot))  # dS K has read K_j
    return dq


@gluon.jit
def consume(
    C: gl.constexpr, dQ, Rows, memory, signals, sizes, scale, scale_log2,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, BLOCK_N: gl.constexpr, K_STAGES: gl.constexpr, V_STAGES: gl.constexpr,
):  # fmt: skip
    """dQ of rows 64 C to 64 C + 63 of each tile."""
    q_tiles = memory[0]
    q_full, q_empty, _, _, _, _ = signals
    seq_len, kv_len, heads, _, _, _, _, _ = sizes
    HEAD_DIM: gl.constexpr = q_tiles.shape[4]
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    used = gl.to_tensor(0)  # column blocks so far
    TILES: gl.constexpr = 2 if CAUSAL else 1  # of a hand
    for t in range(hands_of_program(sizes, CAUSAL, BLOCK_M) * TILES):
        batch, head, tile_row = place_of(hand_of(t // TILES), t % TILES, sizes, CAUSAL, BLOCK_M)
        row, end, used = enter(C, signals, tile_row, used, sizes, CAUSAL, BLOCK_N, K_STAGES, V_STAGES)
        blocks = gl.cdiv(seq_len, SIDE)
        block = (batch * heads + head) * blocks + gl.minimum(row // SIDE, blocks - 1)  # rows beyond the last are not written
        rows = Rows + block.to(gl.int64) * (2 * SIDE) + gl.arange(0, SIDE, gl.SliceLayout(1, S))
        lse = gl.load(rows)
        delta = gl.load(rows + SIDE)
        unmasked = gl.minimum(gl.maximum(row + 1 + kv_len - seq_len, 0), kv_len) // BLOCK_N
        dq = gl.zeros([SIDE, HEAD_DIM], gl.float32, ACC)
        mbarrier.wait(q_full.index(C), t & 1)  # Q and dO have landed
        FIRST: gl.constexpr = 1 if MASKED == 1 else 0  # column blocks before the loop
        if MASKED == 1:
            dq = add_block(
                C, dq, memory, signals, used, end - 1, unmasked, row, lse, delta, sizes, scale_log2,
                CAUSAL, 1, BLOCK_N, K_STAGES, V_STAGES,
            )  # fmt: skip
            used += 1
        for i in range(end - FIRST):
            dq = add_block(
                C, dq, memory, signals, used, end - FIRST - 1 - i, unmasked, row, lse, delta, sizes, scale_log2,
                CAUSAL, 2 if MASKED == 2 else 0, BLOCK_N, K_STAGES, V_STAGES,
            )  # fmt: skip
            used += 1
        write(dq * scale, dQ, q_tiles.index(C), batch, head, row, q_empty.index(C))


@gluon.jit(do_not_specialize=["seq_len", "kv_len", "heads", "batch_heads", "group"])
def dq_kernel(
    Q, K, V, dO, dQ, Rows, seq_len, kv_len, heads, batch_heads, group, scale, scale_log2,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, BLOCK_N: gl.constexpr, K_STAGES: gl.constexpr, V_STAGES: gl.constexpr,
    REGISTERS: gl.constexpr,
):  # fmt: skip
    """dQ of tiles of 128 rows, dealt over the programs. Q, K, V, dO, dQ: descriptors of [batch, heads, rows, head_dim], with
    boxes of 64 rows but for K and V, which have BLOCK_N. Rows: as in dkdv_kernel."""
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
        mbarrier.init(q_full.index(i), 1)  # the producer, when its bytes have landed
        mbarrier.init(q_empty.index(i), 1)  # the consumer of that Q and dO
    for i in gl.static_range(K_STAGES):
        mbarrier.init(k_full.index(i), 1)
        mbarrier.init(k_empty.index(i), 2)  # both consumers
    for i in gl.static_range(V_STAGES):
        mbarrier.init(v_full.index(i), 1)
        mbarrier.init(v_empty.index(i), 2)
    fence_async_shared()  # the barriers' first state, before TMA arrives at them
    memory = (q_tiles, do_tiles, k_tiles, v_tiles)
    signals = (q_full, q_empty, k_full, k_empty, v_full, v_empty)
    run = run_of(seq_len, CAUSAL, BLOCK_M)
    sizes = (seq_len, kv_len, heads, batch_heads, inverse_of(run), inverse_of(heads), batch_heads, 1)  # all in pairs
    gl.warp_specialize(
        [
            (produce, (Q, K, V, dO, memory, signals, sizes, group, CAUSAL, BLOCK_N, K_STAGES, V_STAGES)),
            (consume, (0, dQ, Rows, memory, signals, sizes, scale, scale_log2, CAUSAL, MASKED, BLOCK_N, K_STAGES, V_STAGES)),
            (consume, (1, dQ, Rows, memory, signals, sizes, scale, scale_log2, CAUSAL, MASKED, BLOCK_N, K_STAGES, V_STAGES)),
        ],
        [4, 4], [REGISTERS, REGISTERS],
    )  # fmt: skip
