"""FlashAttention-2's order on Hopper: a producer warpgroup loads, consumer warpgroups of 64 query rows each compute.

Shah et al. 2024, arXiv 2407.08608 (FlashAttention-3), Algorithm 2, per consumer and row block, S_j = Q K_j^T:
    S_0 -> softmax -> P_0
    for each further column block j:
        issue S_j = Q K_j^T;  issue O += P_{j-1} V_{j-1}         both run on the tensor cores, in this order
        wait for S_j;  softmax(S_j) -> P_j, decay                under the second matmul
        wait for O;  O *= decay
    O += P_last V_last;  write O / l and the log-sum-exp
Column blocks run from the last visible one to the first, so that masked blocks come first and the long loop has no mask.
Loads and stores are TMA: rows beyond seq_len, kv_len and columns beyond head_dim come as zeros and are not written.
"""

# The names are the paper's, and parameters of a Gluon function have no Python types.
# ruff: noqa: E741
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportConstantRedefinition=false
# pyright: reportCallIssue=false, reportArgumentType=false, reportMissingTypeArgument=false
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

ROWS = gl.constexpr(64)
"""Query rows of one consumer: what one wgmma takes."""
LOG2_E = gl.constexpr(1.4426950408889634)


@gluon.jit
def place_of(tile, seq_len, heads, batch_heads, heads_at_once, CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr):
    """Batch, head and first row of a tile. Tiles of heads_at_once heads are neighbours, causal ones the longest first."""
    blocks = gl.cdiv(seq_len, BLOCK_M)
    first_head = tile // (heads_at_once * blocks) * heads_at_once
    width = gl.minimum(heads_at_once, batch_heads - first_head)
    inside = tile - first_head * blocks
    block = inside // width
    batch_head = first_head + inside - block * width
    if CAUSAL:
        block = blocks - 1 - block
    batch = batch_head // heads
    return batch, batch_head - batch * heads, block * BLOCK_M


@gluon.jit
def blocks_seen(last_row, seq_len, kv_len, CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr):
    """Column blocks that rows up to last_row see; at least one, where all is masked when they see none."""
    keys = kv_len
    if CAUSAL:
        keys = gl.maximum(gl.minimum(last_row + 1 + kv_len - seq_len, kv_len), 1)
    return gl.cdiv(keys, BLOCK_N)


@gluon.jit
def produce(
    Q, K, V, memory, signals, sizes, group,
    CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CONSUMERS: gl.constexpr,
):  # fmt: skip
    """Keeps the consumers' tiles filled: K and V turn round STAGES slots, Q has one slot for each consumer."""
    BLOCK_M: gl.constexpr = ROWS * CONSUMERS
    q_tiles, k_tiles, v_tiles, _ = memory
    q_full, q_empty, k_full, k_empty, v_full, v_empty = signals
    tiles, seq_len, kv_len, heads, batch_heads, heads_at_once = sizes
    filled, turn = 0, 0  # column blocks and row blocks loaded so far
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        batch, head, row = place_of(tile, seq_len, heads, batch_heads, heads_at_once, CAUSAL, BLOCK_M)
        kv_head = head // group
        end = blocks_seen(row + BLOCK_M - 1, seq_len, kv_len, CAUSAL, BLOCK_N)
        for i in range(end):
            col = (end - 1 - i) * BLOCK_N
            slot, phase = filled % STAGES, (filled // STAGES) & 1
            if i == 0:
                for c in gl.static_range(CONSUMERS):
                    mbarrier.wait(q_empty.index(c), (turn & 1) ^ 1)  # consumer c has done with its last Q
                    mbarrier.expect(q_full.index(c), Q.block_type.nbytes)
                    tma_load(Q, [batch, head, row + c * ROWS, 0], q_full.index(c), q_tiles.index(c))
            mbarrier.wait(k_empty.index(slot), phase ^ 1)  # every consumer's Q K^T has read this slot
            mbarrier.expect(k_full.index(slot), K.block_type.nbytes)
            tma_load(K, [batch, kv_head, col, 0], k_full.index(slot), k_tiles.index(slot))
            mbarrier.wait(v_empty.index(slot), phase ^ 1)  # every consumer's P V has read this slot
            mbarrier.expect(v_full.index(slot), V.block_type.nbytes)
            tma_load(V, [batch, kv_head, col, 0], v_full.index(slot), v_tiles.index(slot))
            filled += 1
        turn += 1


@gluon.jit
def softmax(s, m, l, row, col, seq_len, kv_len, scale_log2, CAUSAL: gl.constexpr, MASK: gl.constexpr):
    """P = 2^(s scale_log2 - max), with the new m and l and the decay of what was summed before. m is of unscaled scores."""
    if MASK:
        S: gl.constexpr = s.type.layout
        seen = kv_len - col + gl.full([s.shape[0]], 0, gl.int32, gl.SliceLayout(1, S))
        if CAUSAL:
            rows = row + gl.arange(0, s.shape[0], gl.SliceLayout(1, S))
            seen = gl.minimum(seen, rows + (kv_len - seq_len) + 1 - col)
        lanes = gl.arange(0, s.shape[1], gl.SliceLayout(0, S))
        s = gl.where(lanes[None, :] < seen[:, None], s, float("-inf"))
    m_new = gl.maximum(m, gl.max(s, 1))  # [ROWS]
    shift = m_new * scale_log2
    if MASK:
        shift = gl.where(m_new == float("-inf"), 0.0, shift)  # a row that has seen no key: -inf - (-inf) is NaN
    p = gl.exp2(s * scale_log2 - shift[:, None])  # [ROWS, B_c]
    decay = gl.exp2(m * scale_log2 - shift)  # [ROWS]
    return p, m_new, l * decay + gl.sum(p, 1), decay


@gluon.jit
def attend(
    o, l, m, p, q, k_tiles, v_tiles, k_full, k_empty, v_full, v_empty, used, first, end, row, seq_len, kv_len, scale_log2,
    CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, MASK: gl.constexpr,
):  # fmt: skip
    """O, l, m and the last P after the column blocks end - 1, ..., first. The P V of the block before runs under each softmax."""
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    for i in range(end - first):
        slot, slot_before = used % STAGES, (used - 1) % STAGES
        mbarrier.wait(k_full.index(slot), (used // STAGES) & 1)  # K_j has landed
        s = gl.zeros([ROWS, BLOCK_N], gl.float32, S)
        s = warpgroup_mma(
            q, k_tiles.index(slot).reshape([BLOCK_N, q.shape[1]]).permute((1, 0)), s, use_acc=False, is_async=True
        )
        mbarrier.wait(v_full.index(slot_before), ((used - 1) // STAGES) & 1)  # V_{j-1} has landed
        o = warpgroup_mma(p, v_tiles.index(slot_before).reshape([BLOCK_N, q.shape[1]]), o, is_async=True)
        s = warpgroup_mma_wait(1, [s])  # S_j is there; P V may still run
        mbarrier.arrive(k_empty.index(slot))  # Q K_j^T has read K_j
        e, m, l, decay = softmax(s, m, l, row, (end - 1 - i) * BLOCK_N, seq_len, kv_len, scale_log2, CAUSAL, MASK)
        o = warpgroup_mma_wait(0, [o])
        mbarrier.arrive(v_empty.index(slot_before))  # P V has read V_{j-1}
        o = o * gl.convert_layout(decay, gl.SliceLayout(1, o.type.layout))[:, None]
        p = gl.convert_layout(e.to(p.dtype), p.type.layout)
        used += 1
    return o, l, m, p, used


@gluon.jit
def consume(
    C: gl.constexpr, O, Lse, memory, signals, sizes, scale_log2,
    CAUSAL: gl.constexpr, MASK: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CONSUMERS: gl.constexpr,
    O_IN_Q: gl.constexpr,
):  # fmt: skip
    """Rows C * 64 to C * 64 + 63 of each tile: softmax(Q K^T) V."""
    BLOCK_M: gl.constexpr = ROWS * CONSUMERS
    q_tiles, k_tiles, v_tiles, o_tiles = memory
    q_full, q_empty, k_full, k_empty, v_full, v_empty = signals
    tiles, seq_len, kv_len, heads, batch_heads, heads_at_once = sizes
    HEAD_DIM: gl.constexpr = q_tiles.shape[4]
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    P: gl.constexpr = gl.DotOperandLayout(0, ACC, 2)
    DTYPE: gl.constexpr = q_tiles.dtype
    used, turn = 0, 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        batch, head, row = place_of(tile, seq_len, heads, batch_heads, heads_at_once, CAUSAL, BLOCK_M)
        loaded = blocks_seen(row + BLOCK_M - 1, seq_len, kv_len, CAUSAL, BLOCK_N)
        row += C * ROWS
        end = blocks_seen(row + ROWS - 1, seq_len, kv_len, CAUSAL, BLOCK_N)
        full = gl.minimum(end - 1, kv_len // BLOCK_N)  # blocks before this one need no mask
        if CAUSAL:
            full = gl.minimum(full, gl.maximum(row + 1 + kv_len - seq_len, 0) // BLOCK_N)
        for _ in range(loaded - end):  # blocks that only later consumers see
            slot, phase = used % STAGES, (used // STAGES) & 1
            mbarrier.wait(k_full.index(slot), phase)  # an arrival counts for the load it follows
            mbarrier.arrive(k_empty.index(slot))
            mbarrier.wait(v_full.index(slot), phase)
            mbarrier.arrive(v_empty.index(slot))
            used += 1

        q = q_tiles.index(C).reshape([ROWS, HEAD_DIM])
        mbarrier.wait(q_full.index(C), turn & 1)  # Q has landed
        slot = used % STAGES
        mbarrier.wait(k_full.index(slot), (used // STAGES) & 1)  # K of the last block has landed
        k = k_tiles.index(slot).reshape([BLOCK_N, HEAD_DIM]).permute((1, 0))
        s = warpgroup_mma(q, k, gl.zeros([ROWS, BLOCK_N], gl.float32, S), use_acc=False, is_async=True)
        s = warpgroup_mma_wait(0, [s])
        mbarrier.arrive(k_empty.index(slot))  # Q K^T has read K
        m = gl.full([ROWS], float("-inf"), gl.float32, gl.SliceLayout(1, S))
        l = gl.full([ROWS], 0.0, gl.float32, gl.SliceLayout(1, S))
        e, m, l, _ = softmax(s, m, l, row, (end - 1) * BLOCK_N, seq_len, kv_len, scale_log2, CAUSAL, MASK)
        p = gl.convert_layout(e.to(DTYPE), P)
        o = gl.zeros([ROWS, HEAD_DIM], gl.float32, ACC)
        used += 1
        if CAUSAL:
            o, l, m, p, used = attend(
                o, l, m, p, q, k_tiles, v_tiles, k_full, k_empty, v_full, v_empty, used, full, end - 1, row,
                seq_len, kv_len, scale_log2, CAUSAL, BLOCK_N, STAGES, True,
            )  # fmt: skip
        o, l, m, p, used = attend(
            o, l, m, p, q, k_tiles, v_tiles, k_full, k_empty, v_full, v_empty, used, 0, full, row,
            seq_len, kv_len, scale_log2, CAUSAL, BLOCK_N, STAGES, False,
        )  # fmt: skip
        if not O_IN_Q:
            mbarrier.arrive(q_empty.index(C))  # the last Q K^T has read Q

        slot = (used - 1) % STAGES
        mbarrier.wait(v_full.index(slot), ((used - 1) // STAGES) & 1)  # V of the first block has landed
        o = warpgroup_mma(p, v_tiles.index(slot).reshape([BLOCK_N, HEAD_DIM]), o, is_async=True)
        l = gl.where(l == 0.0, 1.0, l)  # no key seen: O = 0 and log-sum-exp = -inf
        rows = row + gl.arange(0, ROWS, gl.SliceLayout(1, S))
        lse = m * (scale_log2 / LOG2_E) + gl.log(l)
        gl.store(Lse + (batch * heads + head).to(gl.int64) * seq_len + rows, lse, mask=rows < seq_len)
        inverse = gl.convert_layout(1.0 / l, gl.SliceLayout(1, ACC))
        o = warpgroup_mma_wait(0, [o])
        mbarrier.arrive(v_empty.index(slot))  # P V has read V
        tma_store_wait(0)  # the store of the last tile has read o_tile
        warpgroup_barrier()  # ... which every warp must know, and that all have read Q
        o_tiles.index(C).reshape([ROWS, HEAD_DIM]).store((o * inverse[:, None]).to(DTYPE))
        fence_async_shared()  # what was stored to o_tile, before TMA reads it
        warpgroup_barrier()
        tma_store(O, [batch, head, row, 0], o_tiles.index(C))
        if O_IN_Q:
            tma_store_wait(0)  # TMA has read O where the next Q goes
            mbarrier.arrive(q_empty.index(C))
        turn += 1
    tma_store_wait(0)  # shared memory outlives its readers


@gluon.jit
def hopper_forward_kernel(
    Q, K, V, O, Lse, tiles, seq_len, kv_len, heads, batch_heads, group, heads_at_once, scale_log2,
    CAUSAL: gl.constexpr, MASK: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CONSUMERS: gl.constexpr,
    REGISTERS: gl.constexpr, O_IN_Q: gl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile of 64 CONSUMERS rows. Q, K, V, O: descriptors of [batch, heads, rows, head_dim]."""
    HEAD_DIM: gl.constexpr = Q.block_shape[3]
    q_tiles = gl.allocate_shared_memory(Q.dtype, [CONSUMERS, 1, 1, ROWS, HEAD_DIM], Q.layout)
    k_tiles = gl.allocate_shared_memory(K.dtype, [STAGES, 1, 1, BLOCK_N, HEAD_DIM], K.layout)
    v_tiles = gl.allocate_shared_memory(V.dtype, [STAGES, 1, 1, BLOCK_N, HEAD_DIM], V.layout)
    o_tiles = q_tiles if O_IN_Q else gl.allocate_shared_memory(O.dtype, [CONSUMERS, 1, 1, ROWS, HEAD_DIM], O.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [CONSUMERS, 1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [CONSUMERS, 1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for c in gl.static_range(CONSUMERS):
        mbarrier.init(q_full.index(c), 1)  # by the producer's expected bytes
        mbarrier.init(q_empty.index(c), 1)  # by consumer c
    for slot in gl.static_range(STAGES):
        mbarrier.init(k_full.index(slot), 1)
        mbarrier.init(k_empty.index(slot), CONSUMERS)  # by every consumer
        mbarrier.init(v_full.index(slot), 1)
        mbarrier.init(v_empty.index(slot), CONSUMERS)
    fence_async_shared()  # the barriers' first state, before TMA arrives at them
    memory = (q_tiles, k_tiles, v_tiles, o_tiles)
    signals = (q_full, q_empty, k_full, k_empty, v_full, v_empty)
    sizes = (tiles, seq_len, kv_len, heads, batch_heads, heads_at_once)
    if CONSUMERS == 2:
        gl.warp_specialize(
            [
                (produce, (Q, K, V, memory, signals, sizes, group, CAUSAL, BLOCK_N, STAGES, 2)),
                (consume, (0, O, Lse, memory, signals, sizes, scale_log2, CAUSAL, MASK, BLOCK_N, STAGES, 2, O_IN_Q)),
                (consume, (1, O, Lse, memory, signals, sizes, scale_log2, CAUSAL, MASK, BLOCK_N, STAGES, 2, O_IN_Q)),
            ],
            [4, 4], [REGISTERS, REGISTERS],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (produce, (Q, K, V, memory, signals, sizes, group, CAUSAL, BLOCK_N, STAGES, 3)),
                (consume, (0, O, Lse, memory, signals, sizes, scale_log2, CAUSAL, MASK, BLOCK_N, STAGES, 3, O_IN_Q)),
                (consume, (1, O, Lse, memory, signals, sizes, scale_log2, CAUSAL, MASK, BLOCK_N, STAGES, 3, O_IN_Q)),
                (consume, (2, O, Lse, memory, signals, sizes, scale_log2, CAUSAL, MASK, BLOCK_N, STAGES, 3, O_IN_Q)),
            ],
            [4, 4, 4], [REGISTERS, REGISTERS, REGISTERS],
        )  # fmt: skip
