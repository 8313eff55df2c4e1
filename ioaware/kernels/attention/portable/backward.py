"""Attention's gradients in plain Triton: a kernel for dQ, and one for dK and dV.

No atomics, so bitwise reproducible.

Dao 2023, arXiv 2307.08691, Algorithm 2, with its loop split in two so that every block of a gradient has one writer:
    for each row block i:        D_i = rowsum(dO_i * O_i)
                                 for each column block j:  P = exp(S - L);  dS = P * (dO_i V_j^T - D_i);  dQ_i += dS K_j
    for each column block j:     for each row block i:     P^T and dS^T again;  dV_j += P^T dO_i;  dK_j += dS^T Q_i
Seven matmuls per pair of blocks instead of five give determinism and save a float32 copy of dQ. P^T and dS^T come out of their
matmuls transposed, as those for dV and dK take them.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.constants import LOG2_E
from ioaware.kernels.attention.launching.launch import launching
from ioaware.kernels.attention.launching.on_chip_limits import padded
from ioaware.kernels.attention.portable.config import BackwardBlocks, Blocks, backward_blocks, use_tma
from ioaware.kernels.attention.portable.forward import visible_keys_of_rows
from ioaware.kernels.attention.portable.loads import descriptors_or_tensors, head_of, load_tile, store_tile, tile_offsets


@triton.jit
def add_dq(
    dq, q, do, lse_log2, delta, K, V, batch, kv_head, k_offsets, v_offsets, stride_kn, stride_vn, first, end, visible_keys,
    kv_len, scale_log2, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, BLOCK_N: tl.constexpr, TMA: tl.constexpr, FULL:
    tl.constexpr,
):  # fmt: skip
    """Return dQ after the column blocks [first, end).

    visible_keys: of each row [B_r]. FULL: nothing is masked.
    """
    for j in range(first, end):
        col = j * BLOCK_N
        k = load_tile(K, batch, kv_head, col, kv_len, k_offsets, stride_kn, BLOCK_N, WIDTH, HEAD_DIM, TMA, FULL)  # [B_c, d]
        s = tl.dot(q, k.T, input_precision="ieee")  # [B_r, B_c]
        p = tl.math.exp2(s * scale_log2 - lse_log2[:, None])
        if not FULL:
            p = tl.where(col + tl.arange(0, BLOCK_N)[None, :] < visible_keys[:, None], p, 0.0)
        v = load_tile(V, batch, kv_head, col, kv_len, v_offsets, stride_vn, BLOCK_N, WIDTH, HEAD_DIM, TMA, FULL)  # [B_c, d]
        ds = p * (tl.dot(do, v.T, input_precision="ieee") - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")  # [B_r, d]
    return dq


@triton.jit
def dq_kernel(
    Q, K, V, O, dO, dQ, Lse, Lse_log2, Delta,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_on, stride_od,
    stride_gb, stride_gh, stride_gn, stride_gd, stride_dqb, stride_dqh, stride_dqn, stride_dqd,
    heads, group, seq_len, kv_len, scale,
    CAUSAL: tl.constexpr, RAGGED: tl.constexpr, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """Compute dQ of one row block of one head.

    The statistics of its rows, which dkdv_kernel needs, are stored.

    These are D, and L in base 2; a row without a visible key has L = +inf, so that its P is 0. Grid (row blocks, heads, batch).
    """
    i, head, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    if CAUSAL:
        i = tl.num_programs(0) - 1 - i  # the longest first
    kv_head, row = head // group, i * BLOCK_M
    Q = head_of(Q, batch, head, stride_qb, stride_qh, TMA)
    O = head_of(O, batch, head, stride_ob, stride_oh, TMA)
    dO = head_of(dO, batch, head, stride_gb, stride_gh, TMA)
    K = head_of(K, batch, kv_head, stride_kb, stride_kh, TMA)
    V = head_of(V, batch, kv_head, stride_vb, stride_vh, TMA)
    q_offsets = tile_offsets(stride_qn, stride_qd, BLOCK_M, WIDTH)
    o_offsets = tile_offsets(stride_on, stride_od, BLOCK_M, WIDTH)
    do_offsets = tile_offsets(stride_gn, stride_gd, BLOCK_M, WIDTH)
    k_offsets = tile_offsets(stride_kn, stride_kd, BLOCK_N, WIDTH)
    v_offsets = tile_offsets(stride_vn, stride_vd, BLOCK_N, WIDTH)
    o = load_tile(O, batch, head, row, seq_len, o_offsets, stride_on, BLOCK_M, WIDTH, HEAD_DIM, TMA)
    do = load_tile(dO, batch, head, row, seq_len, do_offsets, stride_gn, BLOCK_M, WIDTH, HEAD_DIM, TMA)
    q = load_tile(Q, batch, head, row, seq_len, q_offsets, stride_qn, BLOCK_M, WIDTH, HEAD_DIM, TMA)

    rows = row + tl.arange(0, BLOCK_M)
    lanes = (batch.to(tl.int64) * heads + head) * seq_len + rows
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    lse = tl.load(Lse + lanes, mask=rows < seq_len, other=0.0)
    lse_log2 = tl.where(lse == float("-inf"), float("inf"), lse * LOG2_E)
    tl.store(Delta + lanes, delta, mask=rows < seq_len)
    tl.store(Lse_log2 + lanes, lse_log2, mask=rows < seq_len)

    dq = tl.zeros([BLOCK_M, WIDTH], tl.float32)
    visible_keys, visible_to_first, visible_to_last = visible_keys_of_rows(row, seq_len, kv_len, CAUSAL, BLOCK_M)
    full = visible_to_first // BLOCK_N
    dq = add_dq(
        dq, q, do, lse_log2, delta, K, V, batch, kv_head, k_offsets, v_offsets, stride_kn, stride_vn, 0, full, visible_keys,
        kv_len, scale * LOG2_E, HEAD_DIM, WIDTH, BLOCK_N, TMA, True,
    )  # fmt: skip
    if CAUSAL or RAGGED:
        dq = add_dq(
            dq, q, do, lse_log2, delta, K, V, batch, kv_head, k_offsets, v_offsets, stride_kn, stride_vn, full,
            tl.cdiv(visible_to_last, BLOCK_N), visible_keys, kv_len, scale * LOG2_E, HEAD_DIM, WIDTH, BLOCK_N, TMA, False,
        )  # fmt: skip
    store_tile(
        dq * scale, dQ, batch, head, row, seq_len, stride_dqb, stride_dqh, stride_dqn, stride_dqd, BLOCK_M, WIDTH, HEAD_DIM
    )


@triton.jit
def add_dkdv(
    dk, dv, k, v, Q, dO, Lse_log2, Delta, batch, head, q_offsets, do_offsets, stride_qn, stride_gn, first, end, col, seq_len,
    kv_len, scale_log2, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    DK: tl.constexpr, DV: tl.constexpr, TMA: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Return dK and dV after the row blocks [first, end) of one head.

    MASKED: some rows do not see some key.
    """
    for i in range(first, end):
        row = i * BLOCK_M
        rows = row + tl.arange(0, BLOCK_M)
        q = load_tile(Q, batch, head, row, seq_len, q_offsets, stride_qn, BLOCK_M, WIDTH, HEAD_DIM, TMA)  # [B_r, d]
        lse_log2 = tl.load(Lse_log2 + rows, mask=rows < seq_len, other=float("inf"))  # no row: P = 0
        s = tl.dot(k, q.T, input_precision="ieee")  # [B_c, B_r]
        p = tl.math.exp2(s * scale_log2 - lse_log2[None, :])
        if MASKED:
            p = tl.where((col + tl.arange(0, BLOCK_N))[:, None] <= rows[None, :] + (kv_len - seq_len), p, 0.0)
        do = load_tile(dO, batch, head, row, seq_len, do_offsets, stride_gn, BLOCK_M, WIDTH, HEAD_DIM, TMA)  # [B_r, d]
        if DV:
            dv = tl.dot(p.to(k.dtype), do, dv, input_precision="ieee")  # [B_c, d]
        if DK:
            delta = tl.load(Delta + rows, mask=rows < seq_len, other=0.0)
            ds = p * (tl.dot(v, do.T, input_precision="ieee") - delta[None, :])
            dk = tl.dot(ds.to(k.dtype), q, dk, input_precision="ieee")  # [B_c, d]
    return dk, dv


@triton.jit
def dkdv_kernel(
    Q, K, V, dO, dK, dV, Lse_log2, Delta,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_gb, stride_gh, stride_gn, stride_gd,
    stride_dkb, stride_dkh, stride_dkn, stride_dkd, stride_dvb, stride_dvh, stride_dvn, stride_dvd,
    heads, group, seq_len, kv_len, scale,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    DK: tl.constexpr, DV: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """Compute dK where DK, dV where DV, of one column block of one key head.

    Grid (column blocks, key heads, batch).
    """
    col, kv_head, batch = tl.program_id(0) * BLOCK_N, tl.program_id(1), tl.program_id(2)
    K = head_of(K, batch, kv_head, stride_kb, stride_kh, TMA)
    V = head_of(V, batch, kv_head, stride_vb, stride_vh, TMA)
    q_offsets = tile_offsets(stride_qn, stride_qd, BLOCK_M, WIDTH)
    do_offsets = tile_offsets(stride_gn, stride_gd, BLOCK_M, WIDTH)
    k_offsets = tile_offsets(stride_kn, stride_kd, BLOCK_N, WIDTH)
    v_offsets = tile_offsets(stride_vn, stride_vd, BLOCK_N, WIDTH)
    k = load_tile(K, batch, kv_head, col, kv_len, k_offsets, stride_kn, BLOCK_N, WIDTH, HEAD_DIM, TMA)  # [B_c, d]
    v = k
    if DK:
        v = load_tile(V, batch, kv_head, col, kv_len, v_offsets, stride_vn, BLOCK_N, WIDTH, HEAD_DIM, TMA)  # [B_c, d]
    dk = tl.zeros([BLOCK_N, WIDTH], tl.float32)
    dv = tl.zeros([BLOCK_N, WIDTH], tl.float32)
    first, full, end = 0, 0, tl.cdiv(seq_len, BLOCK_M)
    if CAUSAL:  # the first row block that sees a key of this column block, and the first that sees all of them
        behind = kv_len - seq_len
        first = tl.minimum(tl.maximum(col - behind, 0) // BLOCK_M, end)
        full = tl.minimum(tl.cdiv(tl.maximum(col + BLOCK_N - 1 - behind, 0), BLOCK_M), end)
    for member in range(group):
        head = kv_head * group + member
        Q_head = head_of(Q, batch, head, stride_qb, stride_qh, TMA)
        dO_head = head_of(dO, batch, head, stride_gb, stride_gh, TMA)
        lanes = (batch.to(tl.int64) * heads + head) * seq_len
        if CAUSAL:
            dk, dv = add_dkdv(
                dk, dv, k, v, Q_head, dO_head, Lse_log2 + lanes, Delta + lanes, batch, head, q_offsets, do_offsets, stride_qn,
                stride_gn, first, full, col, seq_len, kv_len, scale * LOG2_E, HEAD_DIM, WIDTH, BLOCK_M, BLOCK_N, DK, DV, TMA,
                True,
            )  # fmt: skip
        dk, dv = add_dkdv(
            dk, dv, k, v, Q_head, dO_head, Lse_log2 + lanes, Delta + lanes, batch, head, q_offsets, do_offsets, stride_qn,
            stride_gn, full, end, col, seq_len, kv_len, scale * LOG2_E, HEAD_DIM, WIDTH, BLOCK_M, BLOCK_N, DK, DV, TMA, False,
        )  # fmt: skip
    if DV:
        store_tile(
            dv, dV, batch, kv_head, col, kv_len, stride_dvb, stride_dvh, stride_dvn, stride_dvd, BLOCK_N, WIDTH, HEAD_DIM
        )
    if DK:
        store_tile(
            dk * scale, dK, batch, kv_head, col, kv_len, stride_dkb, stride_dkh, stride_dkn, stride_dkd,
            BLOCK_N, WIDTH, HEAD_DIM,
        )  # fmt: skip


def attention_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    *,
    causal: bool,
    scale: float,
    tma: bool | None = None,
    blocks: BackwardBlocks | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dQ, dK and dV; deterministic.

    q, o, do [batch, heads, seq_len, head_dim]; k, v [batch, kv_heads, kv_len, head_dim], kv_heads a divisor of heads; lse
    [batch, heads, seq_len], contiguous, float32, natural. Any strides. TMA and blocks are chosen unless given.
    """
    batch, heads, seq_len, head_dim = q.shape
    kv_heads, kv_len = k.shape[1], k.shape[2]
    width = padded(head_dim)
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    lse_log2, delta = torch.empty_like(lse), torch.empty_like(lse)
    by_tma = use_tma(q, k, v, o, do) if tma is None else tma
    blocks = blocks or backward_blocks(head_dim, q.element_size(), seq_len, tma=by_tma)
    sizes = (heads, heads // kv_heads, seq_len, kv_len, scale)

    def launch_dkdv(part: Blocks, *, want_dk: bool, want_dv: bool) -> None:
        rows = ((q, part.block_m), (k, part.block_n), (v, part.block_n), (do, part.block_m))
        dkdv_kernel[(triton.cdiv(kv_len, part.block_n), kv_heads, batch)](
            *descriptors_or_tensors(by_tma, width, *rows), dk, dv, lse_log2, delta,
            *q.stride(), *k.stride(), *v.stride(), *do.stride(), *dk.stride(), *dv.stride(), *sizes,
            CAUSAL=causal, HEAD_DIM=head_dim, WIDTH=width, DK=want_dk, DV=want_dv, TMA=by_tma,
            **part.constants, enable_fp_fusion=True,
        )  # fmt: skip

    with launching("attention", q.device):
        part = blocks.dq
        rows = ((q, part.block_m), (k, part.block_n), (v, part.block_n), (o, part.block_m), (do, part.block_m))
        dq_kernel[(triton.cdiv(seq_len, part.block_m), heads, batch)](
            *descriptors_or_tensors(by_tma, width, *rows), dq, lse, lse_log2, delta,
            *q.stride(), *k.stride(), *v.stride(), *o.stride(), *do.stride(), *dq.stride(), *sizes,
            CAUSAL=causal, RAGGED=kv_len % part.block_n != 0, HEAD_DIM=head_dim, WIDTH=width, TMA=by_tma,
            **part.constants, enable_fp_fusion=True,
        )  # fmt: skip
        launch_dkdv(blocks.dkdv, want_dk=blocks.dk is None, want_dv=True)
        if blocks.dk is not None:
            launch_dkdv(blocks.dk, want_dk=True, want_dv=False)
    return dq, dk, dv
