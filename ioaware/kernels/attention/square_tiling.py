"""Compute attention in square tiles.

It is the best known order where on-chip memory holds less than d^2 elements.

Saha and Ye 2024, arXiv 2402.07443, Algorithm 1 (SquareTiling), with B = floor(sqrt(M / 4)), per (batch, head):
    for each tile (i, j) of S:          S_ij = sum over blocks c of d of Q_ic K_jc^T;  l_i += rowsum e^(S_ij);  write S_ij
    write l
    for each tile (i, c) of O:          O_ic = sum over j of e^(S_ij) V_jc;  write O_ic / l_i
As printed it subtracts no maximum: logits above 88 overflow. S and l are kept in float32. Elements read: N d ceil(N_k / B) +
2 N_k d ceil(N / B) + N N_k ceil(d / B) + N; written: N N_k + N + N d; about 8 N^2 d / sqrt(M) for N_k = N. Causal masks S with
-inf and skips nothing: the algorithm computes all of S.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.masks import visible_pairs
from ioaware.kernels.attention.blocks.square_tiles import tile_of_product
from ioaware.kernels.attention.blocks.tiles import block_mask, load_block, store_block, tile_side
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.launching.launch import launching
from ioaware.kernels.attention.launching.on_chip_limits import square_options


@triton.jit
def square_tiling_scores(
    Q, K, S, L, stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    seq_len, kv_len, scale, CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
    """Compute S and the row sums l of e^S of one row block.

    Grid (row blocks, heads, batch).
    """
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    Q += batch * stride_qb + head * stride_qh
    K += batch * stride_kb + head * stride_kh
    S += (batch * tl.num_programs(1) + head) * seq_len * kv_len
    L += (batch * tl.num_programs(1) + head) * seq_len
    row = tl.program_id(0) * SIDE
    l = tl.zeros([tile_side(SIDE)], tl.float32)  # [B]
    for col in range(0, kv_len, SIDE):
        s = tile_of_product(Q, K, row, col, seq_len, kv_len, stride_qn, stride_qd, stride_kn, stride_kd, HEAD_DIM, SIDE) * scale
        if CAUSAL:
            s = tl.where(visible_pairs(row, col, seq_len, kv_len, True, SIDE, SIDE), s, float("-inf"))
        store_block(s, S, row, col, seq_len, kv_len, kv_len, 1, SIDE, SIDE)
        l += tl.sum(tl.where(block_mask(row, col, seq_len, kv_len, SIDE, SIDE), tl.exp(s), 0.0), 1)
    lanes = tl.arange(0, tile_side(SIDE))
    tl.store(L + row + lanes, l, mask=(lanes < SIDE) & (row + lanes < seq_len))


@triton.jit
def square_tiling_output(
    S, L, V, O, stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_on, stride_od,
    seq_len, kv_len, CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
    """Compute O of one row block, SIDE columns of d at a time.

    Grid (row blocks, heads, batch).
    """
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    S += (batch * tl.num_programs(1) + head) * seq_len * kv_len
    L += (batch * tl.num_programs(1) + head) * seq_len
    V += batch * stride_vb + head * stride_vh
    O += batch * stride_ob + head * stride_oh
    row, lanes = tl.program_id(0) * SIDE, tl.arange(0, tile_side(SIDE))
    l = tl.load(L + row + lanes, mask=(lanes < SIDE) & (row + lanes < seq_len), other=1.0)  # [B]
    if CAUSAL:
        l = tl.where(l == 0.0, 1.0, l)  # no visible key: O = 0
    for depth in range(0, HEAD_DIM, SIDE):
        o = tl.zeros([tile_side(SIDE), tile_side(SIDE)], tl.float32)  # [B, B]
        for col in range(0, kv_len, SIDE):
            s = load_block(S, row, col, seq_len, kv_len, kv_len, 1, SIDE, SIDE)  # [B, B]
            v = load_block(V, col, depth, kv_len, HEAD_DIM, stride_vn, stride_vd, SIDE, SIDE)  # [B, B]
            o = tl.dot((tl.exp(s) / l[:, None]).to(v.dtype), v, o, input_precision="ieee")
        store_block(o, O, row, depth, seq_len, HEAD_DIM, stride_on, stride_od, SIDE, SIDE)


def square_tiling(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None, block_m: int = 32
) -> torch.Tensor:
    """Compute softmax(scale Q K^T) V in tiles of block_m x block_m.

    The maximum is not subtracted.

    q [batch, heads, seq_len, head_dim], k and v [batch, heads, kv_len, head_dim]: float16, bfloat16 or float32, any strides.
    causal aligns the last query with the last key. Returns o like q.
    Extra memory: S and l, N N_k + N elements of float32 per head.
    Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    shape = check_attention("square_tiling", q, k, v, scale=scale, block_m=block_m, block_n=block_m)
    batch, heads, seq_len, kv_len = shape.batch, shape.heads, shape.seq_len, shape.kv_len
    s = torch.empty((batch, heads, seq_len, kv_len), dtype=torch.float32, device=q.device)
    l = torch.empty((batch, heads, seq_len), dtype=torch.float32, device=q.device)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    grid = (triton.cdiv(seq_len, block_m), heads, batch)
    constants = {"CAUSAL": causal, "HEAD_DIM": shape.head_dim, "SIDE": block_m, **square_options(block_m, q.element_size())}
    with launching("square_tiling", q.device):
        square_tiling_scores[grid](q, k, s, l, *q.stride(), *k.stride(), seq_len, kv_len, shape.scale, **constants)
        square_tiling_output[grid](s, l, v, o, *v.stride(), *o.stride(), seq_len, kv_len, **constants)
    return o
