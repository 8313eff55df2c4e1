"""Decode a few queries against many keys by split-KV, in plain Triton.

The method is Flash-Decoding.

One row block per head would leave most of a GPU idle, so the keys are split. For each key head, with the rows of all query
heads that share it packed into one tile:
    for each split of its keys, in parallel:    O_s, L_s = softmax(scale Q K_s^T) V_s and its log-sum-exp, as FlashAttention-2
    for each row:                               L = log sum_s exp(L_s);  O = sum_s exp(L_s - L) O_s
Every key and value is read once per tile of 64 rows, so HBM bandwidth is the limit. The order of all sums is fixed, so results
are bitwise reproducible.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from ioaware.kernels.attention.constants import LOG2_E


@triton.jit
def load_keys(
    X, col, offsets, stride_n, kv_len, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, BLOCK_N: tl.constexpr, FULL: tl.constexpr
):  # fmt: skip
    """Load rows [col, col + B_c) of K or V as a tile [B_c, WIDTH], zeros beyond.

    FULL: all rows exist.
    """
    pointers = X + col.to(tl.int64) * stride_n + offsets
    if FULL and HEAD_DIM == WIDTH:
        x = tl.load(pointers)
    else:
        exists = (tl.arange(0, WIDTH) < HEAD_DIM)[None, :]
        if not FULL:
            exists &= (col + tl.arange(0, BLOCK_N) < kv_len)[:, None]
        x = tl.load(pointers, mask=exists, other=0.0)
    return x


@triton.jit
def mainloop(
    o, l, m, q, K, V, k_offsets, v_offsets, stride_kn, stride_vn, first, end, visible_keys, kv_len, scale_log2,
    HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, BLOCK_N: tl.constexpr, FULL: tl.constexpr,
):  # fmt: skip
    """Return O, l, m after the column blocks [first, end).

    FULL: every row sees every key of them.
    """
    for j in range(first, end):
        col = j * BLOCK_N
        k = load_keys(K, col, k_offsets, stride_kn, kv_len, HEAD_DIM, WIDTH, BLOCK_N, FULL)  # [B_c, d]
        v = load_keys(V, col, v_offsets, stride_vn, kv_len, HEAD_DIM, WIDTH, BLOCK_N, FULL)  # [B_c, d]
        s = tl.dot(q, k.T, input_precision="ieee") * scale_log2  # [rows, B_c], in units of log 2
        if not FULL:
            s = tl.where(col + tl.arange(0, BLOCK_N)[None, :] < visible_keys[:, None], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        shift = tl.where(m_new == float("-inf"), 0.0, m_new)  # a row without a visible key: -inf - (-inf) is NaN
        p = tl.math.exp2(s - shift[:, None])
        decay = tl.math.exp2(m - shift)
        l = l * decay + tl.sum(p, 1)
        o = tl.dot(p.to(v.dtype), v, o * decay[:, None], input_precision="ieee")
        m = m_new
    return o, l, m


@triton.jit
def decode_kernel(
    Q, K, V, O, Lse,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_os, stride_ob, stride_oh, stride_on, stride_od,
    seq_len, kv_len, group, splits, scale_log2,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
    ALIGNMENT: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Compute O and the log-sum-exp of one split and one tile of rows of one key head.

    Grid (tiles * splits, key heads, batch). K's and V's strides but the last are multiples of ALIGNMENT elements, for 16-byte
    loads. OVERLAP: the combining programs may be launched while these run; they wait for these results.
    """
    if OVERLAP:
        gdc_launch_dependents()
    tiles = tl.cdiv(group * seq_len, ROWS)
    split, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles  # tiles of the same keys run together
    kv_head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    stride_kn = tl.multiple_of(stride_kn, ALIGNMENT)
    stride_vn = tl.multiple_of(stride_vn, ALIGNMENT)
    K += batch * tl.multiple_of(stride_kb, ALIGNMENT) + kv_head * tl.multiple_of(stride_kh, ALIGNMENT)
    V += batch * tl.multiple_of(stride_vb, ALIGNMENT) + kv_head * tl.multiple_of(stride_vh, ALIGNMENT)

    rows = tile * ROWS + tl.arange(0, ROWS)  # of group * seq_len: the rows of one query head follow one another
    cols = tl.arange(0, WIDTH)
    exists = rows < group * seq_len
    head, position = kv_head * group + rows // seq_len, rows % seq_len
    inside = exists[:, None] & (cols < HEAD_DIM)[None, :]
    q_rows = batch * stride_qb + head * stride_qh + position * stride_qn
    q = tl.load(Q + q_rows[:, None] + cols[None, :] * stride_qd, mask=inside, other=0.0)  # [rows, d]

    lanes = tl.arange(0, BLOCK_N).to(tl.int64)[:, None]
    k_offsets = lanes * stride_kn + cols[None, :] * stride_kd
    v_offsets = lanes * stride_vn + cols[None, :] * stride_vd
    visible_keys, visible_to_all = tl.full([ROWS], 0, tl.int32) + kv_len, kv_len
    if CAUSAL:
        visible_keys, visible_to_all = position + (kv_len - seq_len) + 1, tl.maximum(kv_len - seq_len + 1, 0)
    blocks = tl.cdiv(kv_len, BLOCK_N)
    first, end = split * blocks // splits, (split + 1) * blocks // splits
    full = tl.maximum(tl.minimum(end, visible_to_all // BLOCK_N), first)
    o = tl.zeros([ROWS, WIDTH], tl.float32)
    l = tl.zeros([ROWS], tl.float32)
    m = tl.full([ROWS], float("-inf"), tl.float32)
    o, l, m = mainloop(
        o, l, m, q, K, V, k_offsets, v_offsets, stride_kn, stride_vn, first, full, visible_keys, kv_len, scale_log2,
        HEAD_DIM, WIDTH, BLOCK_N, True,
    )  # fmt: skip
    o, l, m = mainloop(
        o, l, m, q, K, V, k_offsets, v_offsets, stride_kn, stride_vn, full, end, visible_keys, kv_len, scale_log2,
        HEAD_DIM, WIDTH, BLOCK_N, False,
    )  # fmt: skip

    l = tl.where(l == 0.0, 1.0, l)  # no visible key: O = 0 and log-sum-exp = -inf
    o_rows = split.to(tl.int64) * stride_os + batch * stride_ob + head * stride_oh + position * stride_on
    tl.store(O + o_rows[:, None] + cols[None, :] * stride_od, (o / l[:, None]).to(O.dtype.element_ty), mask=inside)
    Lse += ((split * tl.num_programs(2) + batch) * tl.num_programs(1) + kv_head) * group * seq_len
    tl.store(Lse + rows, m / LOG2_E + tl.log(l), mask=exists)


@triton.jit
def combine_kernel(
    O_split, Lse_split, O, Lse, stride_ob, stride_oh, stride_on, stride_od, heads, seq_len, splits,
    HEAD_DIM: tl.constexpr, COLS: tl.constexpr, AT_ONCE: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Combine COLS columns of one row of O from its splits, AT_ONCE of them at a time.

    Grid (batch * heads * seq_len, ceil(d / COLS)). OVERLAP: launched while the splits are still being computed.
    """
    row, rows = tl.program_id(0).to(tl.int64), tl.num_programs(0).to(tl.int64)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    if OVERLAP:
        gdc_wait()  # until every split is in memory
    o = tl.zeros([COLS], tl.float32)
    l, m = 0.0, float("-inf")
    for first in range(0, splits, AT_ONCE):
        some = first + tl.arange(0, AT_ONCE)
        exists = some < splits
        inside = exists[:, None] & (cols < HEAD_DIM)[None, :]
        lse = tl.load(Lse_split + some * rows + row, mask=exists, other=float("-inf"))
        parts = tl.load(O_split + (some * rows + row)[:, None] * HEAD_DIM + cols[None, :], mask=inside, other=0.0)
        m_new = tl.maximum(m, tl.max(lse, 0))
        shift = tl.where(m_new == float("-inf"), 0.0, m_new)
        weight, decay = tl.exp(lse - shift), tl.exp(m - shift)
        l = l * decay + tl.sum(weight, 0)
        o = o * decay + tl.sum(parts * weight[:, None], 0)
        m = m_new
    l = tl.where(l == 0.0, 1.0, l)  # no visible key: O = 0 and log-sum-exp = -inf
    O += row // seq_len // heads * stride_ob + row // seq_len % heads * stride_oh + row % seq_len * stride_on
    tl.store(O + cols * stride_od, (o / l).to(O.dtype.element_ty), mask=cols < HEAD_DIM)
    if tl.program_id(1) == 0:
        tl.store(Lse + row, m + tl.log(l))
