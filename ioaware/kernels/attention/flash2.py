"""Compute FlashAttention-2's forward pass: row blocks outside.

K and V are streamed; O, l and m stay on chip.

Dao 2023, arXiv 2307.08691, Algorithm 1, per (batch, head):
    for each row block i:           load Q_i; O_i = 0, l_i = 0, m_i = -inf on chip
        for each column block j:    load K_j, V_j;  S = Q_i K_j^T
            m_new = max(m_i, rowmax S);  P = exp(S - m_new)
            l_i = e^(m_i - m_new) l_i + rowsum P;  O_i = e^(m_i - m_new) O_i + P V_j;  m_i = m_new
        write O_i / l_i and the log-sum-exp m_i + log l_i
Reads N d + 2 N_k d ceil(N / B_r) elements and writes N d + N. Causal stops at the last block that a row of Q_i sees.

Order of the column blocks (`order`): a sawtooth reverses j for every second group of programs, which then begins with the
blocks that the group before it read last. A group is one program (row_sawtooth) or the programs that run at once
(wave_sawtooth). Requested bytes do not depend on the order; HBM bytes do where K and V exceed the L2.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl

from ioaware.errors import UsageError
from ioaware.kernels.attention.blocks.tiles import load_block, store_block, tile_side
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.constants import LOG2_E
from ioaware.kernels.attention.launching.launch import launching, resident_programs, shared_memory_bytes
from ioaware.kernels.attention.launching.on_chip_limits import ORDERS, flash2_options


@triton.jit
def mainloop(
    o, l, m, q, K, V, first_block, end_block, row, stride_kn, stride_kd, stride_vn, stride_vd, seq_len, kv_len, scale_log2,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, FULL: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Return O, l, m after the column blocks [first_block, end_block).

    FULL: every row sees every key of them, and every second GROUP of programs takes the last first. Other blocks, at most
    ceil(B_r / B_c) + 1, keep their order.
    """
    lanes = tl.arange(0, tile_side(BLOCK_N))
    rows = row + tl.arange(0, q.shape[0])
    for j in range(first_block, end_block):
        col = j * BLOCK_N
        if GROUP and FULL:
            col = tl.where(in_reversed_group(GROUP), first_block + end_block - 1 - j, j) * BLOCK_N
        k = load_block(K, col, 0, kv_len, HEAD_DIM, stride_kn, stride_kd, BLOCK_N, HEAD_DIM, FULL)  # [B_c, d]
        s = tl.dot(q, k.T, input_precision="ieee") * scale_log2  # [B_r, B_c], in units of log 2
        if not FULL or tile_side(BLOCK_N) != BLOCK_N:
            visible = tl.minimum(kv_len - col, BLOCK_N)  # keys of block j, or those of it visible to each row
            if CAUSAL:
                visible = tl.minimum(visible, rows + (kv_len - seq_len) + 1 - col)[:, None]  # [B_r, 1]
            s = tl.where(lanes[None, :] < visible, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))  # [B_r]
        shift = tl.where(m_new == float("-inf"), 0.0, m_new)  # a row without a visible key: -inf - (-inf) is NaN
        p = tl.math.exp2(s - shift[:, None])  # [B_r, B_c]
        decay = tl.math.exp2(m - shift)  # [B_r]
        l = l * decay + tl.sum(p, 1)
        v = load_block(V, col, 0, kv_len, HEAD_DIM, stride_vn, stride_vd, BLOCK_N, HEAD_DIM, FULL)  # [B_c, d]
        o = tl.dot(p.to(v.dtype), v, o * decay[:, None], input_precision="ieee")  # [B_r, d]
        m = m_new
    return o, l, m


@triton.jit
def in_reversed_group(GROUP: tl.constexpr):
    """Return whether this program is in a group of odd number.

    Groups are of GROUP programs in launch order.
    """
    rows, heads = tl.num_programs(0), tl.num_programs(1)
    program = tl.program_id(0) + rows * (tl.program_id(1) + heads * tl.program_id(2))
    return program // GROUP % 2 == 1


@triton.jit
def flash2_kernel(
    Q, K, V, O, Lse,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_on, stride_od,
    seq_len, kv_len, scale_log2,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr = 0,
):  # fmt: skip
    """Compute one row block of one head.

    Grid (row blocks, heads, batch). GROUP: programs of one direction, 0 for all.
    """
    i, head, batch = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    Q += batch * stride_qb + head * stride_qh
    K += batch * stride_kb + head * stride_kh
    V += batch * stride_vb + head * stride_vh
    O += batch * stride_ob + head * stride_oh
    Lse += (batch * tl.num_programs(1) + head) * seq_len
    row = i * BLOCK_M

    q = load_block(Q, row, 0, seq_len, HEAD_DIM, stride_qn, stride_qd, BLOCK_M, HEAD_DIM)  # [B_r, d]
    o = tl.zeros([tile_side(BLOCK_M), tile_side(HEAD_DIM)], tl.float32)  # [B_r, d]
    l = tl.zeros([tile_side(BLOCK_M)], tl.float32)  # [B_r]
    m = tl.full([tile_side(BLOCK_M)], float("-inf"), tl.float32)  # [B_r], in units of log 2

    visible_to_first, visible_to_last = kv_len, kv_len  # keys visible to the first and to the last row of the block
    if CAUSAL:
        visible_to_first = tl.maximum(row + 1 + (kv_len - seq_len), 0)
        visible_to_last = tl.maximum(tl.minimum(row + BLOCK_M, seq_len) + (kv_len - seq_len), 0)
    full, end = tl.minimum(visible_to_first, kv_len) // BLOCK_N, tl.cdiv(visible_to_last, BLOCK_N)
    o, l, m = mainloop(
        o, l, m, q, K, V, 0, full, row, stride_kn, stride_kd, stride_vn, stride_vd, seq_len, kv_len, scale_log2,
        CAUSAL, HEAD_DIM, BLOCK_N, True, GROUP,
    )  # fmt: skip
    o, l, m = mainloop(
        o, l, m, q, K, V, full, end, row, stride_kn, stride_kd, stride_vn, stride_vd, seq_len, kv_len, scale_log2,
        CAUSAL, HEAD_DIM, BLOCK_N, False, GROUP,
    )  # fmt: skip

    l = tl.where(l == 0.0, 1.0, l)  # no visible key: O = 0 and log-sum-exp = -inf
    store_block(o / l[:, None], O, row, 0, seq_len, HEAD_DIM, stride_on, stride_od, BLOCK_M, HEAD_DIM)
    lanes = tl.arange(0, tile_side(BLOCK_M))
    tl.store(Lse + row + lanes, m / LOG2_E + tl.log(l), mask=(lanes < BLOCK_M) & (row + lanes < seq_len))


def flash2(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_m: int = 64,
    block_n: int = 64,
    order: str | None = None,
    programs_at_once: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute softmax(scale Q K^T) V and its log-sum-exp by FlashAttention-2.

    q [batch, heads, seq_len, head_dim], k and v [batch, heads, kv_len, head_dim]: float16, bfloat16 or float32, any strides.
    causal aligns the last query with the last key; scale is 1/sqrt(head_dim) unless given; B_r = block_m, B_c = block_n.
    order is plain unless given; wave_sawtooth takes the programs that this GPU runs at once unless `programs_at_once` is given.
    Returns o like q and lse [batch, heads, seq_len] in float32; a row without a visible key gives zeros and -inf.
    Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    shape = check_attention("flash2", q, k, v, scale=scale, block_m=block_m, block_n=block_n)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    arguments = (
        q, k, v, o, lse, *q.stride(), *k.stride(), *v.stride(), *o.stride(),
        shape.seq_len, shape.kv_len, shape.scale * LOG2_E.value,
    )  # fmt: skip
    options = {
        "CAUSAL": causal, "HEAD_DIM": shape.head_dim, "BLOCK_M": block_m, "BLOCK_N": block_n,
        **flash2_options(block_m, block_n, shape.head_dim, q.element_size(), shared_memory_bytes(q.device)),
    }  # fmt: skip
    with launching("flash2", q.device):
        group = programs_of_one_direction(
            order, programs_at_once, lambda: resident_programs(flash2_kernel, arguments, {**options, "GROUP": 1}, q.device)
        )
        grid = (triton.cdiv(shape.seq_len, block_m), shape.heads, shape.batch)
        flash2_kernel[grid](*arguments, GROUP=group, **options)
    return o, lse


def programs_of_one_direction(order: str | None, programs_at_once: int | None, resident: Callable[[], int]) -> int:
    """Return how many programs stream K and V in one direction; 0 for all.

    `resident` returns the programs that run at once, by the compiled kernel. Raises UsageError for an unknown order.
    """
    if order not in (None, *ORDERS):
        raise UsageError(f"flash2: there is no order {order!r}", f"Choose one of {', '.join(ORDERS)}.")
    if order == "row_sawtooth":
        return 1
    if order != "wave_sawtooth":
        return 0
    if programs_at_once is None:
        return resident()
    if programs_at_once < 1:
        raise UsageError(f"flash2: programs_at_once={programs_at_once} cannot work", "Give a positive number, or leave it out.")
    return programs_at_once
