"""Compute FlashAttention-2 for query heads that share key heads.

On request the keys are split over programs (split-KV).

A local reducer on each block of keys, then a combiner (Flash-Decoding, Dao et al. 2023). With H query heads on H_kv key heads,
G = H / H_kv, a tile has rows of one query head (unpacked: K and V are read for every query head) or rows of all G heads of a
group one after another (packed: K and V are read once for up to B_r rows of the group):
    for each split s of the column blocks, in parallel:   O_s, L_s = softmax(scale Q K_s^T) V_s and its log-sum-exp
    for each row:                                         L = log sum_s e^(L_s);  O = sum_s e^(L_s - L) O_s
Per tile column of R rows (R = N unpacked, G N packed) and S splits, in elements: reads S R d + 2 N_k d ceil(R / B_r), and, of
partial results in float32, S R (d + 1) written and read again; writes R d + R. K and V traffic does not depend on S. A split
without a visible key writes zeros and -inf. Causal stops at the last block that a tile's rows see; packed tiles skip nothing.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.errors import UsageError
from ioaware.kernels.attention.blocks.masks import last_column_block
from ioaware.kernels.attention.blocks.tiles import load_block, tile_side
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.launching.launch import launching, shared_memory_bytes
from ioaware.kernels.attention.launching.on_chip_limits import flash2_options


@triton.jit
def grouped_kernel(
    Q, K, V, O, Lse,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_os, stride_ob, stride_oh, stride_on, stride_od,
    seq_len, kv_len, group, packed, splits, scale,
    CAUSAL: tl.constexpr, PACKED: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute one tile of rows of `packed` query heads against one split of the keys.

    Grid (tiles * splits, query heads or, PACKED, key heads, batch). packed: `group` where PACKED, 1 where not.
    """
    tiles = tl.cdiv(packed * seq_len, BLOCK_M)
    split, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    kv_head = head if PACKED else head // group
    K += batch * stride_kb + kv_head * stride_kh
    V += batch * stride_vb + kv_head * stride_vh
    row, lanes = tile * BLOCK_M, tl.arange(0, tile_side(BLOCK_M))
    exists = (lanes < BLOCK_M) & (row + lanes < packed * seq_len)
    rows, heads = row + lanes, tl.full([tile_side(BLOCK_M)], 0, tl.int64) + head
    if PACKED:  # the rows of one query head follow those of another
        heads = head * group + (row + lanes) // seq_len
        rows = (row + lanes) % seq_len
    cols = tl.arange(0, tile_side(HEAD_DIM))
    inside = exists[:, None] & (cols < HEAD_DIM)[None, :]
    q_rows = batch * stride_qb + heads * stride_qh + rows.to(tl.int64) * stride_qn
    q = tl.load(Q + q_rows[:, None] + cols[None, :] * stride_qd, mask=inside, other=0.0)  # [B_r, d]

    blocks = tl.cdiv(kv_len, BLOCK_N)
    end = blocks if PACKED else last_column_block(row, seq_len, kv_len, CAUSAL, BLOCK_M, BLOCK_N)
    o = tl.zeros([tile_side(BLOCK_M), tile_side(HEAD_DIM)], tl.float32)  # [B_r, d]
    l = tl.zeros([tile_side(BLOCK_M)], tl.float32)  # [B_r]
    m = tl.full([tile_side(BLOCK_M)], float("-inf"), tl.float32)  # [B_r]
    for j in range(split * blocks // splits, tl.minimum((split + 1) * blocks // splits, end)):
        col = j * BLOCK_N
        k = load_block(K, col, 0, kv_len, HEAD_DIM, stride_kn, stride_kd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        v = load_block(V, col, 0, kv_len, HEAD_DIM, stride_vn, stride_vd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        keys = tl.arange(0, tile_side(BLOCK_N))
        visible = tl.minimum(kv_len - col, BLOCK_N)
        if CAUSAL:
            visible = tl.minimum(visible, rows + (kv_len - seq_len) + 1 - col)[:, None]  # [B_r, 1]
        s = tl.dot(q, k.T, input_precision="ieee") * scale  # [B_r, B_c]
        s = tl.where(keys[None, :] < visible, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))  # [B_r]
        shift = tl.where(m_new == float("-inf"), 0.0, m_new)  # a row without a visible key: -inf - (-inf) is NaN
        p, decay = tl.exp(s - shift[:, None]), tl.exp(m - shift)
        l = l * decay + tl.sum(p, 1)
        o = tl.dot(p.to(v.dtype), v, o * decay[:, None], input_precision="ieee")
        m = m_new

    l = tl.where(l == 0.0, 1.0, l)  # no visible key: O = 0 and log-sum-exp = -inf
    o_rows = split.to(tl.int64) * stride_os + batch * stride_ob + heads * stride_oh + rows.to(tl.int64) * stride_on
    tl.store(O + o_rows[:, None] + cols[None, :] * stride_od, (o / l[:, None]).to(O.dtype.element_ty), mask=inside)
    first = (split.to(tl.int64) * tl.num_programs(2) + batch) * tl.num_programs(1) * packed * seq_len
    tl.store(Lse + first + heads * seq_len + rows, m + tl.log(l), mask=exists)


@triton.jit
def combine_splits(O_split, Lse_split, O, Lse, rows, splits, HEAD_DIM: tl.constexpr):
    """Combine one row of O [rows, d] from its splits [splits, rows, d]. Grid (rows)."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, tile_side(HEAD_DIM))
    o = tl.zeros([tile_side(HEAD_DIM)], tl.float32)  # [d]
    l, m = tl.full([], 0.0, tl.float32), tl.full([], float("-inf"), tl.float32)
    for split in range(splits):
        lse = tl.load(Lse_split + split * rows + row)
        part = tl.load(O_split + (split * rows + row) * HEAD_DIM + cols, mask=cols < HEAD_DIM, other=0.0)  # [d]
        m_new = tl.maximum(m, lse)
        shift = tl.where(m_new == float("-inf"), 0.0, m_new)
        l = l * tl.exp(m - shift) + tl.exp(lse - shift)
        o = o * tl.exp(m - shift) + part * tl.exp(lse - shift)
        m = m_new
    l = tl.where(l == 0.0, 1.0, l)  # no visible key: O = 0 and log-sum-exp = -inf
    tl.store(O + row * HEAD_DIM + cols, (o / l).to(O.dtype.element_ty), mask=cols < HEAD_DIM)
    tl.store(Lse + row, m + tl.log(l))


def grouped_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    packed: bool = False,
    splits: int = 1,
    block_m: int = 64,
    block_n: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute softmax(scale Q K^T) V and its log-sum-exp for grouped heads.

    The keys are in `splits` parts.

    q [batch, heads, seq_len, head_dim], k and v [batch, kv_heads, kv_len, head_dim], kv_heads a divisor of heads: float16,
    bfloat16 or float32, any strides. causal aligns the last query with the last key; scale is 1/sqrt(head_dim) unless given.
    Returns o, contiguous, of q's shape, and lse [batch, heads, seq_len] in float32. Extra memory with splits: their O and
    log-sum-exp in float32. Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    if q.dim() == k.dim() == 4 and q.shape[1] % k.shape[1]:
        raise UsageError(
            f"grouped attention: {q.shape[1]} heads cannot share {k.shape[1]} key heads", "kv_heads must divide heads."
        )
    group = q.shape[1] // k.shape[1]
    shape = check_attention("grouped attention", q[:, ::group], k, v, scale=scale, block_m=block_m, block_n=block_n)
    batch, heads, seq_len = shape.batch, q.shape[1], shape.seq_len
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty((batch, heads, seq_len), dtype=torch.float32, device=q.device)
    parts, lse_parts = o.unsqueeze(0), lse
    if splits > 1:
        parts = torch.empty((splits, *q.shape), dtype=torch.float32, device=q.device)
        lse_parts = torch.empty((splits, *lse.shape), dtype=torch.float32, device=q.device)
    in_tile = group if packed else 1
    with launching("grouped attention", q.device):
        grouped_kernel[(triton.cdiv(in_tile * seq_len, block_m) * splits, heads // in_tile, batch)](
            q, k, v, parts, lse_parts, *q.stride(), *k.stride(), *v.stride(), *parts.stride(),
            seq_len, shape.kv_len, group, in_tile, splits, shape.scale,
            CAUSAL=causal, PACKED=packed, HEAD_DIM=shape.head_dim, BLOCK_M=block_m, BLOCK_N=block_n,
            **flash2_options(block_m, block_n, shape.head_dim, q.element_size(), shared_memory_bytes(q.device)),
        )  # fmt: skip
        if splits > 1:
            combine_splits[(batch * heads * seq_len,)](
                parts, lse_parts, o, lse, batch * heads * seq_len, splits, HEAD_DIM=shape.head_dim, num_warps=1
            )
    return o, lse
