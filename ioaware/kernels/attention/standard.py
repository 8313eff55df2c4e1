"""Standard attention, forward: S and P are written to HBM and read back.

Dao et al. 2022, arXiv 2205.14135, Algorithm 0, per (batch, head):
    S = Q K^T        a program per tile of S, the whole head_dim at once; S is kept in float32
    P = softmax(S)   a program per row; S is read once where a row fits on chip, twice (online) where not
    O = P V          a program per row block, streaming P and V; P is kept in the inputs' dtype
With B_r x B_c tiles: reads N d ceil(N_k / B_c) + N_k d ceil(N / B_r); then c N N_k; then N N_k + N_k d ceil(N / B_r), c 1 or 2;
writes 2 N N_k + N d. Causal masks S with -inf and skips nothing: Algorithm 0 computes all of S.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.tiles import load_block, store_block, tile_side
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.launching.launch import launching, shared_memory_bytes
from ioaware.kernels.attention.launching.on_chip_limits import ROW_ON_CHIP, padded, softmax_options, standard_options

GROUP = tl.constexpr(8)
"""Row blocks of S that are visited together in each column block.

Their Q stays in the L2 and they share each K_j.
"""

CHUNK = 4096
"""Columns of S that one step of the two-read softmax takes."""


@triton.jit
def standard_scores(
    Q, K, S,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    seq_len, kv_len, scale,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """S_ij = scale Q_i K_j^T, -inf where masked. Grid (tiles of S, heads, batch)."""
    tile, head, batch = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    row_blocks, col_blocks = tl.cdiv(seq_len, BLOCK_M), tl.cdiv(kv_len, BLOCK_N)
    i, j = tl.swizzle2d(tile // col_blocks, tile % col_blocks, row_blocks, col_blocks, GROUP)
    row, col = i * BLOCK_M, j * BLOCK_N
    Q += batch * stride_qb + head * stride_qh
    K += batch * stride_kb + head * stride_kh
    S += (batch * tl.num_programs(1) + head) * seq_len * kv_len

    q = load_block(Q, row, 0, seq_len, HEAD_DIM, stride_qn, stride_qd, BLOCK_M, HEAD_DIM)  # [B_r, d]
    k = load_block(K, col, 0, kv_len, HEAD_DIM, stride_kn, stride_kd, BLOCK_N, HEAD_DIM)  # [B_c, d]
    s = tl.dot(q, k.T, input_precision="ieee") * scale  # [B_r, B_c]
    if CAUSAL:
        rows = row + tl.arange(0, tile_side(BLOCK_M))
        cols = col + tl.arange(0, tile_side(BLOCK_N))
        s = tl.where(cols[None, :] <= rows[:, None] + (kv_len - seq_len), s, float("-inf"))
    store_block(s, S, row, col, seq_len, kv_len, kv_len, 1, BLOCK_M, BLOCK_N)


@triton.jit
def standard_softmax(S, P, seq_len, kv_len, CHUNK: tl.constexpr, ONE_READ: tl.constexpr):
    """Compute P = softmax(S) of one row; a row of -inf becomes zeros.

    Grid (rows, heads, batch).
    """
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    row = ((batch * tl.num_programs(1) + head) * seq_len + tl.program_id(0)) * kv_len
    cols = tl.arange(0, CHUNK)
    if ONE_READ:
        s = tl.load(S + row + cols, mask=cols < kv_len, other=float("-inf"))  # [N_k]
        m = tl.max(s, 0)
        p = tl.exp(s - tl.where(m == float("-inf"), 0.0, m))  # [N_k]
        l = tl.sum(p, 0)
        tl.store(P + row + cols, (p / tl.where(l == 0.0, 1.0, l)).to(P.dtype.element_ty), mask=cols < kv_len)
    else:
        m, l = tl.full([], float("-inf"), tl.float32), tl.full([], 0.0, tl.float32)
        for start in range(0, kv_len, CHUNK):  # Milakov and Gimelshein 2018: maximum and sum in one read
            s = tl.load(S + row + start + cols, mask=start + cols < kv_len, other=float("-inf"))  # [CHUNK]
            m_new = tl.maximum(m, tl.max(s, 0))
            shift = tl.where(m_new == float("-inf"), 0.0, m_new)
            l = l * tl.exp(m - shift) + tl.sum(tl.exp(s - shift), 0)
            m = m_new
        shift = tl.where(m == float("-inf"), 0.0, m)
        for start in range(0, kv_len, CHUNK):
            s = tl.load(S + row + start + cols, mask=start + cols < kv_len, other=float("-inf"))  # [CHUNK]
            p = tl.exp(s - shift) / tl.where(l == 0.0, 1.0, l)
            tl.store(P + row + start + cols, p.to(P.dtype.element_ty), mask=start + cols < kv_len)


@triton.jit
def standard_output(
    P, V, O,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_on, stride_od,
    seq_len, kv_len, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute O_i = sum over j of P_ij V_j. Grid (row blocks, heads, batch)."""
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * BLOCK_M
    P += (batch * tl.num_programs(1) + head) * seq_len * kv_len
    V += batch * stride_vb + head * stride_vh
    O += batch * stride_ob + head * stride_oh

    o = tl.zeros([tile_side(BLOCK_M), tile_side(HEAD_DIM)], tl.float32)  # [B_r, d]
    for col in range(0, kv_len, BLOCK_N):
        p = load_block(P, row, col, seq_len, kv_len, kv_len, 1, BLOCK_M, BLOCK_N)  # [B_r, B_c]
        v = load_block(V, col, 0, kv_len, HEAD_DIM, stride_vn, stride_vd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        o = tl.dot(p, v, o, input_precision="ieee")
    store_block(o, O, row, 0, seq_len, HEAD_DIM, stride_on, stride_od, BLOCK_M, HEAD_DIM)


def standard(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> torch.Tensor:
    """Compute softmax(scale Q K^T) V with S and P in HBM.

    S is in float32, P in the inputs' dtype.

    q [batch, heads, seq_len, head_dim], k and v [batch, heads, kv_len, head_dim]: float16, bfloat16 or float32, any strides.
    causal aligns the last query with the last key; scale is 1/sqrt(head_dim) unless given; tiles are block_m x block_n.
    Returns o like q; a row without a visible key gives zeros. Extra memory: S and P, N N_k elements each per head.
    Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    return standard_forward(q, k, v, causal=causal, scale=scale, block_m=block_m, block_n=block_n)[0]


def standard_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute o as `standard` does.

    Return it with P [batch, heads, seq_len, kv_len] in the inputs' dtype.
    """
    shape = check_attention("standard", q, k, v, scale=scale, block_m=block_m, block_n=block_n)
    batch, heads, seq_len, kv_len = shape.batch, shape.heads, shape.seq_len, shape.kv_len
    s = torch.empty((batch, heads, seq_len, kv_len), dtype=torch.float32, device=q.device)
    p = torch.empty((batch, heads, seq_len, kv_len), dtype=q.dtype, device=q.device)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    row_blocks, col_blocks = triton.cdiv(seq_len, block_m), triton.cdiv(kv_len, block_n)
    one_read = kv_len <= ROW_ON_CHIP
    chunk = padded(kv_len) if one_read else CHUNK
    blocks = {"HEAD_DIM": shape.head_dim, "BLOCK_M": block_m, "BLOCK_N": block_n}
    options = standard_options(block_m, block_n, shape.head_dim, q.element_size(), shared_memory_bytes(q.device))
    with launching("standard", q.device):
        standard_scores[(row_blocks * col_blocks, heads, batch)](
            q, k, s, *q.stride(), *k.stride(), seq_len, kv_len, shape.scale, CAUSAL=causal, **blocks, **options
        )
        standard_softmax[(seq_len, heads, batch)](
            s, p, seq_len, kv_len, CHUNK=chunk, ONE_READ=one_read, **softmax_options(chunk)
        )
        standard_output[(row_blocks, heads, batch)](p, v, o, *v.stride(), *o.stride(), seq_len, kv_len, **blocks, **options)
    return o, p
