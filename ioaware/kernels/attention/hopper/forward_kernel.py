"""FlashAttention-2's order on Hopper: a producer warpgroup loads, consumer warpgroups of 64 query rows each compute.

Shah et al. 2024, arXiv 2407.08608 (FlashAttention-3), with its Algorithm 1 per consumer and row block, S_j = Q K_j^T:
    S_0;  softmax(S_0) -> P_0
    for each further column block j:
        start S_j = Q K_j^T;  start O += P_{j-1} V_{j-1}         the tensor cores do them in this order
        wait for S_j, then for O;  exponentials -> P_j           while the other consumers' matmuls run
    O += P_last V_last;  write O / l and the log-sum-exp
Only P_0 has the rows' maxima subtracted; later ones what is in use, and O is scaled in the few blocks where that is no longer
near the maximum (hopper_softmax.py). Exponentials before the wait for O, FlashAttention-3's Algorithm 2, came out slower here
(docs/hopper-attention.md).
Column blocks run from the last visible one to the first, so that masked ones come first: no other than the first if the causal
diagonal begins at a multiple of 64. Elsewhere a branch in the long loop masks the second, which costs 5 to 8 %.
Of a plan with turns, consumers issue these two matmuls one after the other, round and round (hopper_turns.py).
A program works on one row block after the other: while O of one is written, Q, K and V of the next are on their way.
Loads and stores are TMA: rows beyond seq_len or kv_len and columns beyond head_dim come as zeros and are not written.
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

from ioaware.kernels.attention.hopper.codegen import ring, unknown_zero
from ioaware.kernels.attention.hopper.gluon_compat import SINCE_3_7, tma_load, tma_store, tma_store_wait, warpgroup_barrier
from ioaware.kernels.attention.hopper.softmax import attended, beside, prepare, row_sums, scaled
from ioaware.kernels.attention.hopper.tile_scheduler import hand_of, hands_of_program, place_of, tiles_of_hand
from ioaware.kernels.attention.hopper.warp_scheduler_barrier import pass_turn, take_turn

ROWS = gl.constexpr(64)
"""Query rows of one consumer: what one wgmma takes."""
LOG2_E = gl.constexpr(1.4426950408889634)


@gluon.jit
def blocks_seen(first_row, last_row, sizes, CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr):
    """Column blocks that rows up to last_row see; at least one, where all is masked when they see none."""
    seq_len, kv_len = sizes[0], sizes[1]
    keys = kv_len
    if CAUSAL:
        keys = gl.maximum(gl.minimum(last_row + 1 + kv_len - seq_len, kv_len), 1)
        keys = keys if first_row < seq_len else 1
    return gl.cdiv(keys, BLOCK_N)


@gluon.jit
def load_q(C: gl.constexpr, Q, q_tiles, signals, t, batch, head, row, CONSUMERS: gl.constexpr, Q_SLOTS: gl.constexpr):
    """Consumer C's Q of the t-th tile, which begins at `row`."""
    q_full, q_empty, _, _, _, _ = signals
    slot, lap = (t * CONSUMERS + C) % Q_SLOTS, (t * CONSUMERS + C) // Q_SLOTS
    mbarrier.wait(q_empty.index(slot), (lap + 1) & 1)  # the consumer that had this slot has done with it
    mbarrier.expect(q_full.index(slot), Q.block_type.nbytes)
    tma_load(Q, [batch, head, row + C * ROWS, 0], q_full.index(slot), q_tiles.index(slot))


@gluon.jit
def produce(
    Q, K, V, memory, signals, sizes, group,
    CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CONSUMERS: gl.constexpr, Q_SLOTS: gl.constexpr,
    O_APART: gl.constexpr,
):  # fmt: skip
    """Keeps the tiles in shared memory filled: K and V turn round STAGES slots, the consumers' Q round Q_SLOTS."""
    BLOCK_M: gl.constexpr = ROWS * CONSUMERS
    q_tiles, k_tiles, v_tiles, _ = memory
    _, _, k_full, k_empty, v_full, v_empty = signals
    loaded = 0  # column blocks so far
    t = 0  # tiles so far
    for r in range(hands_of_program(sizes, CAUSAL, BLOCK_M)):
        for second in range(tiles_of_hand(hand_of(r), sizes, CAUSAL, BLOCK_M)):
            batch, head, row = place_of(hand_of(r), second, sizes, CAUSAL, BLOCK_M)
            # A Q that has to wait until an O has left must not keep K from the consumer whose Q is there.
            EARLY: gl.constexpr = CONSUMERS if O_APART else 1
            for c in gl.static_range(EARLY):
                load_q(c, Q, q_tiles, signals, t, batch, head, row, CONSUMERS, Q_SLOTS)
            kv_head = head // group
            end = blocks_seen(row, row + BLOCK_M - 1, sizes, CAUSAL, BLOCK_N)
            for i in range(end):
                col = (end - 1 - i) * BLOCK_N
                slot, lap = loaded % STAGES, loaded // STAGES + 1
                mbarrier.wait(k_empty.index(slot), lap & 1)  # every consumer's Q K^T has read the K that was here
                mbarrier.expect(k_full.index(slot), K.block_type.nbytes)
                tma_load(K, [batch, kv_head, col, 0], k_full.index(slot), k_tiles.index(slot))
                if i == 0:
                    for c in gl.static_range(EARLY, CONSUMERS):
                        load_q(c, Q, q_tiles, signals, t, batch, head, row, CONSUMERS, Q_SLOTS)
                mbarrier.wait(v_empty.index(slot), lap & 1)  # every consumer's P V has read the V that was here
                mbarrier.expect(v_full.index(slot), V.block_type.nbytes)
                tma_load(V, [batch, kv_head, col, 0], v_full.index(slot), v_tiles.index(slot))
                loaded += 1
            t += 1


@gluon.jit
def masked(s, row, col, zero, sizes, CAUSAL: gl.constexpr):
    """-inf where a row does not see a key. With an unknown_zero a thread's row and column numbers are computed here, and not
    kept from the kernel's start on, with a constant added for each place with a mask."""
    seq_len, kv_len = sizes[0], sizes[1]
    S: gl.constexpr = s.type.layout
    # A thread holds the columns 8 i + {0, 1} + its even number below 8. With that number on the right, the left is a
    # constant of each register, and no registers are spent on column numbers.
    lanes = gl.arange(0, s.shape[1], gl.SliceLayout(0, S))
    if CAUSAL:
        rows = row + gl.arange(0, s.shape[0], gl.SliceLayout(1, S)) * (1 + zero)
        seen = gl.minimum(kv_len, rows + (kv_len - seq_len) + 1) - col
        return gl.where((lanes & -7)[None, :] < seen[:, None] - (lanes & 6)[None, :], s, float("-inf"))
    return gl.where((lanes & -7)[None, :] < (kv_len - col - (lanes & 6) * (1 + zero))[None, :], s, float("-inf"))


@gluon.jit
def scores(q, k_tiles, slot, KEYS: gl.constexpr):
    """Starts S = Q K^T of the first so many keys of one column block."""
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
    k = k_tiles.index(slot).reshape([k_tiles.shape[3], q.shape[1]]).slice(0, KEYS)
    s = gl.zeros([ROWS, KEYS], gl.float32, S)
    return warpgroup_mma(q, k.permute((1, 0)), s, use_acc=False, is_async=True)


@gluon.jit
def attend(
    o, l, m, p, q, memory, signals, used, unmasked, end, row, sizes, scale_log2,
    C: gl.constexpr, MASKED: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CONSUMERS: gl.constexpr,
    TURNS: gl.constexpr,
):  # fmt: skip
    """O, l, m and the last P after the column blocks end - 1, ..., 0, of which the first `unmasked` are seen in full."""
    _, k_tiles, v_tiles, _ = memory
    _, _, k_full, k_empty, v_full, v_empty = signals
    for i in range(end):
        block = end - 1 - i
        zero = unknown_zero(used) if MASKED == 2 and SINCE_3_7 else 0
        slot, phase = ring(used, STAGES)
        slot_before, phase_before = ring(used - 1, STAGES)
        v = v_tiles.index(slot_before).reshape([BLOCK_N, q.shape[1]])
        mbarrier.wait(k_full.index(slot), phase)  # K_j has landed
        if TURNS:
            take_turn(C)  # the consumer before has issued its matmuls
        s = scores(q, k_tiles, slot, BLOCK_N)
        mbarrier.wait(v_full.index(slot_before), phase_before)  # V_{j-1} has landed
        o = warpgroup_mma(p, v, o, is_async=True)
        if TURNS:
            pass_turn(C, CONSUMERS)
        s = warpgroup_mma_wait(1, [s])  # S_j is there; P V may still run
        mbarrier.arrive(k_empty.index(slot))  # Q K_j^T has read K_j
        if MASKED == 2:
            if block >= unmasked:
                s = masked(s, row, block * BLOCK_N, zero, sizes, True)
        o = warpgroup_mma_wait(0, [o])
        mbarrier.arrive(v_empty.index(slot_before))  # P V has read V_{j-1}
        p, o, l, m = attended(s, p, o, l, m, scale_log2, C, MASKED == 2)
        used += 1
    return o, l, m, p, used


@gluon.jit
def write(
    C: gl.constexpr, o, l, m, O, Lse, o_tile, hand, second, sizes, scale_log2,
    CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr,
):  # fmt: skip
    """O / l and the log-sum-exp of consumer C's rows of the t-th tile."""
    seq_len, heads = sizes[0], sizes[2]
    batch, head, row = place_of(hand, second, sizes, CAUSAL, BLOCK_M)  # again: that is cheaper than registers to keep it in
    row += C * ROWS
    l = gl.where(l == 0.0, 1.0, l)  # no key seen: O = 0 and log-sum-exp = -inf
    rows = row + gl.arange(0, ROWS, l.type.layout)
    lse = m * (scale_log2 / LOG2_E) + gl.log(l)
    gl.store(Lse + (batch * heads + head).to(gl.int64) * seq_len + rows, lse, mask=rows < seq_len)
    inverse = gl.convert_layout(1.0 / l, gl.SliceLayout(1, o.type.layout))
    tma_store_wait(0)  # the last store has read o_tile
    warpgroup_barrier()  # ... which every warp must know, and that all warps have done with Q, should O go there
    o_tile.reshape(o.shape).store((o * inverse[:, None]).to(o_tile.dtype))
    fence_async_shared()  # what was stored to o_tile, before TMA reads it
    warpgroup_barrier()
    tma_store(O, [batch, head, row, 0], o_tile)


@gluon.jit
def enter(
    C: gl.constexpr, signals, row, used, sizes,
    CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CONSUMERS: gl.constexpr, TURNS: gl.constexpr,
):  # fmt: skip
    """Consumer C's first row in the tile from `row` on and the column blocks it sees; those that only later consumers see go
    back to the producer unread, each with a turn that is not used."""
    _, _, k_full, k_empty, v_full, v_empty = signals
    end = blocks_seen(row, row + ROWS * CONSUMERS - 1, sizes, CAUSAL, BLOCK_N)
    if CAUSAL and C < CONSUMERS - 1:
        loaded = end
        end = blocks_seen(row, row + C * ROWS + ROWS - 1, sizes, CAUSAL, BLOCK_N)
        for _ in range(loaded - end):
            slot, phase = ring(used, STAGES)
            mbarrier.wait(k_full.index(slot), phase)  # an arrival counts for the load that it follows
            mbarrier.arrive(k_empty.index(slot))
            mbarrier.wait(v_full.index(slot), phase)
            mbarrier.arrive(v_empty.index(slot))
            used += 1
            if TURNS:
                take_turn(C)
                pass_turn(C, CONSUMERS)
    return row + C * ROWS, end, used


@gluon.jit
def just_now(sizes, n):
    """The sizes. The compiler does not know that they never change with n, a number that is never negative, so that what
    depends on them is computed where it is written and not, once for all warps, far above, where nothing is left to keep it."""
    seq_len, kv_len, heads, batch_heads, inverse, heads_inverse, paired, others_inverse = sizes
    zero = unknown_zero(n)
    seq_len, kv_len, paired = gl.maximum(seq_len, zero), gl.maximum(kv_len, zero), gl.maximum(paired, zero)
    return seq_len, kv_len, heads, batch_heads, inverse, heads_inverse, paired, others_inverse


@gluon.jit
def consume(
    C: gl.constexpr, work,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, HALVED: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr,
    CONSUMERS: gl.constexpr, Q_SLOTS: gl.constexpr, O_APART: gl.constexpr, TURNS: gl.constexpr,
):  # fmt: skip
    """Rows 64 C to 64 C + 63 of each tile: softmax(Q K^T) V."""
    O, Lse, memory, signals, sizes, scale_log2 = work
    q_tiles, k_tiles, v_tiles, o_tiles = memory
    q_full, q_empty, k_full, k_empty, v_full, v_empty = signals
    HEAD_DIM: gl.constexpr = q_tiles.shape[4]
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    P: gl.constexpr = gl.DotOperandLayout(0, ACC, 2)
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    ROW: gl.constexpr = gl.SliceLayout(1, SCORES)
    KEYS: gl.constexpr = BLOCK_N // 2 if HALVED and C == 0 else BLOCK_N  # of its first column block that it may see
    if TURNS and C == CONSUMERS - 1:
        pass_turn(C, CONSUMERS)  # the first turn is consumer 0's
    prepare(C)
    used = gl.to_tensor(0)  # column blocks so far
    t = gl.to_tensor(0)  # tiles so far
    for r in range(hands_of_program(just_now(sizes, sizes[2]), CAUSAL, ROWS * CONSUMERS)):
        for second in range(tiles_of_hand(hand_of(r), sizes, CAUSAL, ROWS * CONSUMERS)):
            now = just_now(sizes, t)
            _batch, _head, tile_row = place_of(hand_of(r), second, now, CAUSAL, ROWS * CONSUMERS)
            row, end, used = enter(C, signals, tile_row, used, now, CAUSAL, BLOCK_N, STAGES, CONSUMERS, TURNS)
            q_slot, q_lap = (t * CONSUMERS + C) % Q_SLOTS, (t * CONSUMERS + C) // Q_SLOTS
            q = q_tiles.index(q_slot).reshape([ROWS, HEAD_DIM])
            slot, phase = ring(used, STAGES)
            mbarrier.wait(q_full.index(q_slot), q_lap & 1)  # Q has landed
            mbarrier.wait(k_full.index(slot), phase)  # K_0 has landed
            s = warpgroup_mma_wait(0, [scores(q, k_tiles, slot, KEYS)])
            mbarrier.arrive(k_empty.index(slot))  # Q K_0^T has read K_0
            if MASKED > 0:
                zero = unknown_zero(used) if SINCE_3_7 and (MASKED == 2 or not CAUSAL) else 0
                s = masked(s, row, (end - 1) * BLOCK_N, zero, now, CAUSAL)
            m = gl.max(s, 1)  # [ROWS]
            e = gl.exp2(s * scale_log2 - scaled(m, scale_log2, MASKED > 0)[:, None])
            l = row_sums(e)
            m = gl.convert_layout(m, ROW)
            p = e.to(q_tiles.dtype)
            if KEYS < BLOCK_N:
                p = beside(p, gl.full(p.shape, 0, p.dtype, p.type.layout))
            p = gl.convert_layout(p, P)
            used += 1

            o = gl.zeros([ROWS, HEAD_DIM], gl.float32, ACC)
            unmasked = gl.minimum(gl.maximum(row + 1 + now[1] - now[0], 0), now[1]) // BLOCK_N
            o, l, m, p, used = attend(
                o, l, m, p, q, memory, signals, used, unmasked, end - 1, row, now, scale_log2, C, MASKED, BLOCK_N,
                STAGES, CONSUMERS, TURNS,
            )  # fmt: skip
            if O_APART:
                mbarrier.arrive(q_empty.index(q_slot))  # the last Q K^T has read Q

            slot, phase = ring(used - 1, STAGES)
            mbarrier.wait(v_full.index(slot), phase)  # V_last has landed
            o = warpgroup_mma(p, v_tiles.index(slot).reshape([BLOCK_N, HEAD_DIM]), o, is_async=True)
            o = warpgroup_mma_wait(0, [o])
            mbarrier.arrive(v_empty.index(slot))  # P V has read V_last
            o_tile = o_tiles.index(C if O_APART else q_slot)
            l = gl.convert_layout(gl.sum(l, 1), ROW)  # [ROWS]
            write(C, o, l, m, O, Lse, o_tile, hand_of(r), second, now, scale_log2, CAUSAL, ROWS * CONSUMERS)
            if not O_APART:
                tma_store_wait(0)  # TMA has read O from where a later Q goes
                mbarrier.arrive(q_empty.index(q_slot))
            t += 1
    tma_store_wait(0)  # shared memory outlives its readers


NUMBERS = ["seq_len", "kv_len", "heads", "batch_heads", "group", "inverse", "heads_inverse", "paired", "others_inverse"]


@gluon.jit(do_not_specialize=NUMBERS)
def hopper_forward_kernel(
    Q, K, V, O, Lse, seq_len, kv_len, heads, batch_heads, group, inverse, heads_inverse, paired, others_inverse,
    scale_log2,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, HALVED: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr,
    CONSUMERS: gl.constexpr, REGISTERS: gl.constexpr, Q_SLOTS: gl.constexpr, O_APART: gl.constexpr,
    TURNS: gl.constexpr,
):  # fmt: skip
    """Tiles of 64 CONSUMERS rows, dealt over the programs. Q, K, V, O: descriptors of [batch, heads, rows, head_dim];
    inverse, heads_inverse, others_inverse: what hopper_order's `divided` takes for its run, for heads, for heads not in pairs;
    MASKED: in how many column blocks there may be keys that a consumer's rows do not see: none, the first, the first two.
    HALVED: whether of two consumers the first sees no more than half of its first column block, where the diagonal begins.
    TURNS: whether consumers take turns at the tensor cores."""
    HEAD_DIM: gl.constexpr = Q.block_shape[3]
    q_tiles = gl.allocate_shared_memory(Q.dtype, [Q_SLOTS, 1, 1, ROWS, HEAD_DIM], Q.layout)
    k_tiles = gl.allocate_shared_memory(K.dtype, [STAGES, 1, 1, BLOCK_N, HEAD_DIM], K.layout)
    v_tiles = gl.allocate_shared_memory(V.dtype, [STAGES, 1, 1, BLOCK_N, HEAD_DIM], V.layout)
    o_tiles = q_tiles  # unless O has slots of its own, it leaves through that of Q
    if O_APART:
        o_tiles = gl.allocate_shared_memory(O.dtype, [CONSUMERS, 1, 1, ROWS, HEAD_DIM], O.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [Q_SLOTS, 1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [Q_SLOTS, 1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(Q_SLOTS):
        mbarrier.init(q_full.index(i), 1)  # the producer, when its bytes have landed
        mbarrier.init(q_empty.index(i), 1)  # the consumer of the Q that was there
    for i in gl.static_range(STAGES):
        mbarrier.init(k_full.index(i), 1)
        mbarrier.init(k_empty.index(i), CONSUMERS)  # every consumer
        mbarrier.init(v_full.index(i), 1)
        mbarrier.init(v_empty.index(i), CONSUMERS)
    fence_async_shared()  # the barriers' first state, before TMA arrives at them
    memory = (q_tiles, k_tiles, v_tiles, o_tiles)
    signals = (q_full, q_empty, k_full, k_empty, v_full, v_empty)
    sizes = (seq_len, kv_len, heads, batch_heads, inverse, heads_inverse, paired, others_inverse)
    work = (O, Lse, memory, signals, sizes, scale_log2)
    if CONSUMERS == 2:
        gl.warp_specialize(
            [
                (produce, (Q, K, V, memory, signals, sizes, group, CAUSAL, BLOCK_N, STAGES, 2, Q_SLOTS, O_APART)),
                (consume, (0, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 2, Q_SLOTS, O_APART, TURNS)),
                (consume, (1, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 2, Q_SLOTS, O_APART, TURNS)),
            ],
            [4, 4], [REGISTERS, REGISTERS],
        )  # fmt: skip
    elif CONSUMERS == 3:
        gl.warp_specialize(
            [
                (produce, (Q, K, V, memory, signals, sizes, group, CAUSAL, BLOCK_N, STAGES, 3, Q_SLOTS, O_APART)),
                (consume, (0, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 3, Q_SLOTS, O_APART, TURNS)),
                (consume, (1, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 3, Q_SLOTS, O_APART, TURNS)),
                (consume, (2, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 3, Q_SLOTS, O_APART, TURNS)),
            ],
            [4, 4, 4], [REGISTERS, REGISTERS, REGISTERS],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (produce, (Q, K, V, memory, signals, sizes, group, CAUSAL, BLOCK_N, STAGES, 4, Q_SLOTS, O_APART)),
                (consume, (0, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 4, Q_SLOTS, O_APART, TURNS)),
                (consume, (1, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 4, Q_SLOTS, O_APART, TURNS)),
                (consume, (2, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 4, Q_SLOTS, O_APART, TURNS)),
                (consume, (3, work, CAUSAL, MASKED, HALVED, BLOCK_N, STAGES, 4, Q_SLOTS, O_APART, TURNS)),
            ],
            [4, 4, 4, 4], [REGISTERS, REGISTERS, REGISTERS, REGISTERS],
        )  # fmt: skip
