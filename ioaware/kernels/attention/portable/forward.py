"""Compute attention's forward pass on any GPU that Triton supports.

It is FlashAttention-2's order (see flash2), tuned for speed.

- All blocks are powers of two, in one loop that masks only the blocks that some row does not see in full. With pointers there
  are two loops, since only then do the loads of the first need no mask.
- The maximum is taken of unscaled Q K^T, so that scaling and subtracting it are one fused multiply-add.
- All heads of a group in one launch; where causal, rows that see most keys first.
- K and V by TMA where the GPU has it (see loads), by pointers elsewhere.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.constants import LOG2_E
from ioaware.kernels.attention.launching.launch import launching, shared_memory_bytes
from ioaware.kernels.attention.launching.on_chip_limits import padded
from ioaware.kernels.attention.portable.config import Blocks, forward_blocks, use_tma
from ioaware.kernels.attention.portable.loads import descriptors_or_tensors, head_of, load_tile, store_tile, tile_offsets


@triton.jit
def mainloop(
    o, l, m, q, K, V, batch, kv_head, k_offsets, v_offsets, stride_kn, stride_vn, first, end, full, visible_keys, kv_len,
    scale_log2, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, BLOCK_N: tl.constexpr, LATE_SUMS: tl.constexpr, TMA: tl.constexpr,
    FULL: tl.constexpr,
):  # fmt: skip
    """Return O, l, m after the column blocks [first, end).

    Every row sees all keys of those before `full`; FULL: of all of them. visible_keys: of each row [B_r]. LATE_SUMS: l is [B_r,
    8], each of the eight the sum of every eighth column.
    """
    for j in range(first, end):
        col = j * BLOCK_N
        k = load_tile(K, batch, kv_head, col, kv_len, k_offsets, stride_kn, BLOCK_N, WIDTH, HEAD_DIM, TMA, FULL)  # [B_c, d]
        s = tl.dot(q, k.T, input_precision="ieee")  # [B_r, B_c]
        if not FULL and j >= full:
            s = tl.where(col + tl.arange(0, BLOCK_N)[None, :] < visible_keys[:, None], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1) * scale_log2)  # [B_r], in units of log 2
        shift = m_new
        if not FULL:
            shift = tl.where(m_new == float("-inf"), 0.0, m_new)  # a row without a visible key: -inf - (-inf) is NaN
        p = tl.math.exp2(s * scale_log2 - shift[:, None])  # [B_r, B_c]
        decay = tl.math.exp2(m - shift)  # [B_r]
        if not LATE_SUMS:
            l = l * decay + tl.sum(p, 1)
        o = o * decay[:, None]
        v = load_tile(V, batch, kv_head, col, kv_len, v_offsets, stride_vn, BLOCK_N, WIDTH, HEAD_DIM, TMA, FULL)  # [B_c, d]
        o = tl.dot(p.to(q.dtype), v, o, input_precision="ieee")  # [B_r, d]
        if LATE_SUMS:  # while that matmul runs, and without other threads
            l = l * decay[:, None] + tl.sum(p.reshape(q.shape[0], BLOCK_N // 8, 8), 1)
        m = m_new
    return o, l, m


@triton.jit
def visible_keys_of_rows(row, seq_len, kv_len, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr):
    """Return the keys that each row sees [B_r], and the block's first and last row.

    The block is at `row`.
    """
    rows = row + tl.arange(0, BLOCK_M)
    if CAUSAL:
        behind = kv_len - seq_len  # the last query aligns with the last key
        each = rows + behind + 1
        visible_to_first = tl.minimum(tl.maximum(row + behind + 1, 0), kv_len)
        visible_to_last = tl.maximum(tl.minimum(row + BLOCK_M, seq_len) + behind, 0)
    else:
        each, visible_to_first, visible_to_last = tl.zeros([BLOCK_M], tl.int32) + kv_len, kv_len, kv_len
    return each, visible_to_first, visible_to_last


@triton.jit
def portable_forward_kernel(
    Q, K, V, O, Lse,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_on, stride_od,
    heads, group, seq_len, kv_len, scale_log2,
    CAUSAL: tl.constexpr, RAGGED: tl.constexpr, SIGN: tl.constexpr, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BY_ROWS: tl.constexpr, LATE_SUMS: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """Compute one row block of one head.

    The grid is (row blocks, heads, batch), or (heads, batch, row blocks) if BY_ROWS.

    scale_log2 is positive: Q is multiplied by SIGN. RAGGED: kv_len is no multiple of B_c. With TMA, Q to O are descriptors.
    """
    i, head, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    if BY_ROWS:
        head, batch, i = i, head, batch
    if CAUSAL:
        i = tl.cdiv(seq_len, BLOCK_M) - 1 - i  # the longest first
    kv_head = head // group
    row = i * BLOCK_M

    Q = head_of(Q, batch, head, stride_qb, stride_qh, TMA)
    K = head_of(K, batch, kv_head, stride_kb, stride_kh, TMA)
    V = head_of(V, batch, kv_head, stride_vb, stride_vh, TMA)
    q_offsets = tile_offsets(stride_qn, stride_qd, BLOCK_M, WIDTH)
    k_offsets = tile_offsets(stride_kn, stride_kd, BLOCK_N, WIDTH)
    v_offsets = tile_offsets(stride_vn, stride_vd, BLOCK_N, WIDTH)
    q = load_tile(Q, batch, head, row, seq_len, q_offsets, stride_qn, BLOCK_M, WIDTH, HEAD_DIM, TMA)  # [B_r, d]
    if SIGN != 1:
        q = q * tl.full([], SIGN, q.dtype)
    o = tl.zeros([BLOCK_M, WIDTH], tl.float32)  # [B_r, d]
    l = tl.zeros([BLOCK_M, 8] if LATE_SUMS else [BLOCK_M], tl.float32)  # [B_r], or in eight parts
    m = tl.full([BLOCK_M], float("-inf"), tl.float32)  # [B_r], in units of log 2

    visible_keys, visible_to_first, visible_to_last = visible_keys_of_rows(row, seq_len, kv_len, CAUSAL, BLOCK_M)
    full, end = visible_to_first // BLOCK_N, tl.cdiv(visible_to_last, BLOCK_N)
    ALL_FULL: tl.constexpr = not (CAUSAL or RAGGED)
    if TMA or ALL_FULL:
        o, l, m = mainloop(
            o, l, m, q, K, V, batch, kv_head, k_offsets, v_offsets, stride_kn, stride_vn, 0, end, full, visible_keys, kv_len,
            scale_log2, HEAD_DIM, WIDTH, BLOCK_N, LATE_SUMS, TMA, ALL_FULL,
        )  # fmt: skip
    else:
        o, l, m = mainloop(
            o, l, m, q, K, V, batch, kv_head, k_offsets, v_offsets, stride_kn, stride_vn, 0, full, full, visible_keys, kv_len,
            scale_log2, HEAD_DIM, WIDTH, BLOCK_N, LATE_SUMS, TMA, True,
        )  # fmt: skip
        o, l, m = mainloop(
            o, l, m, q, K, V, batch, kv_head, k_offsets, v_offsets, stride_kn, stride_vn, full, end, full, visible_keys, kv_len,
            scale_log2, HEAD_DIM, WIDTH, BLOCK_N, LATE_SUMS, TMA, False,
        )  # fmt: skip

    if LATE_SUMS:
        l = tl.sum(l, 1)
    l = tl.where(l == 0.0, 1.0, l)  # no visible key: O = 0 and log-sum-exp = -inf
    o = o * (1.0 / l)[:, None]
    if TMA:
        O.store([batch, head, row, 0], o.to(q.dtype).reshape(1, 1, BLOCK_M, WIDTH))
    else:
        store_tile(o, O, batch, head, row, seq_len, stride_ob, stride_oh, stride_on, stride_od, BLOCK_M, WIDTH, HEAD_DIM)
    rows = row + tl.arange(0, BLOCK_M)
    tl.store(Lse + (batch.to(tl.int64) * heads + head) * seq_len + rows, m / LOG2_E + tl.log(l), mask=rows < seq_len)


def portable_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    scale: float,
    tma: bool | None = None,
    blocks: Blocks | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return softmax(scale Q K^T) V and its natural log-sum-exp.

    q [batch, heads, seq_len, head_dim], k and v [batch, kv_heads, kv_len, head_dim], kv_heads a divisor of heads, any strides.
    Returns o like q and lse [batch, heads, seq_len] in float32, contiguous. TMA and blocks are chosen unless given.
    """
    batch, heads, seq_len, head_dim = q.shape
    kv_heads, kv_len = k.shape[1], k.shape[2]
    width = padded(head_dim)
    o = torch.empty_like(q)
    lse = torch.empty((batch, heads, seq_len), dtype=torch.float32, device=q.device)
    tma = use_tma(q, k, v, o) if tma is None else tma
    blocks = blocks or forward_blocks(
        head_dim, q.element_size(), seq_len, causal=causal, tma=tma, shared_bytes=shared_memory_bytes(q.device)
    )
    by_rows = blocks.by_rows and causal
    row_blocks = triton.cdiv(seq_len, blocks.block_m)
    rows = ((q, blocks.block_m), (k, blocks.block_n), (v, blocks.block_n), (o, blocks.block_m))
    sign = (scale > 0) - (scale < 0)
    with launching("attention", q.device):
        portable_forward_kernel[(heads, batch, row_blocks) if by_rows else (row_blocks, heads, batch)](
            *descriptors_or_tensors(tma, width, *rows), lse, *q.stride(), *k.stride(), *v.stride(), *o.stride(),
            heads, heads // kv_heads, seq_len, kv_len, abs(scale) * LOG2_E.value if sign else 1.0,
            CAUSAL=causal, RAGGED=kv_len % blocks.block_n != 0, SIGN=sign, HEAD_DIM=head_dim, WIDTH=width,
            BY_ROWS=by_rows, LATE_SUMS=blocks.late_sums, TMA=tma, **blocks.constants, enable_fp_fusion=True,
        )  # fmt: skip
    return o, lse
