"""Compute standard attention's backward pass.

P is read from HBM, dP and dS are written to HBM and read back.

Dao et al. 2022, arXiv 2205.14135, Algorithm 3, per (batch, head), with P from the forward pass:
    dV = P^T dO                          a program per column block, streaming P and dO
    dP = dO V^T                          a program per tile of dP, the whole head_dim at once; dP is kept in float32
    dS = P (dP - rowsum(P dP))           a program per row; P and dP are read once where a row fits on chip, twice where not
    dQ = dS K,  dK = dS^T Q              as O = P V forward, and as dV; dS is kept in the inputs' dtype, times the softmax scale
With B_r x B_c tiles: reads 5 N N_k (c of P and of dP in the third line) + N d (3 T_c) + N_k d (2 T_r); writes 2 N N_k + N d +
2 N_k d. A causal mask is in P as zeros and skips nothing.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.tiles import load_block, store_block, tile_side
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.launching.launch import launching, shared_memory_bytes
from ioaware.kernels.attention.launching.on_chip_limits import ROW_ON_CHIP, padded, softmax_options, standard_options
from ioaware.kernels.attention.standard import CHUNK, standard_output, standard_scores


@triton.jit
def standard_transposed_product(
    A, B, C,
    stride_bb, stride_bh, stride_bn, stride_bd, stride_cb, stride_ch, stride_cn, stride_cd,
    seq_len, kv_len, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute C_j = sum over i of A_ij^T B_i for A [N, N_k], B [N, d], C [N_k, d].

    Grid (column blocks, heads, batch).
    """
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    col = tl.program_id(0) * BLOCK_N
    A += (batch * tl.num_programs(1) + head) * seq_len * kv_len
    B += batch * stride_bb + head * stride_bh
    C += batch * stride_cb + head * stride_ch

    c = tl.zeros([tile_side(BLOCK_N), tile_side(HEAD_DIM)], tl.float32)  # [B_c, d]
    for row in range(0, seq_len, BLOCK_M):
        a = load_block(A, row, col, seq_len, kv_len, kv_len, 1, BLOCK_M, BLOCK_N)  # [B_r, B_c]
        b = load_block(B, row, 0, seq_len, HEAD_DIM, stride_bn, stride_bd, BLOCK_M, HEAD_DIM)  # [B_r, d]
        c = tl.dot(a.T, b, c, input_precision="ieee")
    store_block(c, C, col, 0, kv_len, HEAD_DIM, stride_cn, stride_cd, BLOCK_N, HEAD_DIM)


@triton.jit
def standard_softmax_backward(P, dP, dS, scale, seq_len, kv_len, CHUNK: tl.constexpr, ONE_READ: tl.constexpr):
    """Compute scale dS = scale P (dP - rowsum(P dP)) of one row.

    Grid (rows, heads, batch).
    """
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    row = ((batch * tl.num_programs(1) + head) * seq_len + tl.program_id(0)) * kv_len
    cols = tl.arange(0, CHUNK)
    if ONE_READ:
        p = tl.load(P + row + cols, mask=cols < kv_len, other=0.0).to(tl.float32)  # [N_k]
        dp = tl.load(dP + row + cols, mask=cols < kv_len, other=0.0)  # [N_k]
        ds = p * (dp - tl.sum(p * dp, 0)) * scale
        tl.store(dS + row + cols, ds.to(dS.dtype.element_ty), mask=cols < kv_len)
    else:
        delta = tl.full([], 0.0, tl.float32)
        for start in range(0, kv_len, CHUNK):
            p = tl.load(P + row + start + cols, mask=start + cols < kv_len, other=0.0).to(tl.float32)  # [CHUNK]
            delta += tl.sum(p * tl.load(dP + row + start + cols, mask=start + cols < kv_len, other=0.0), 0)
        for start in range(0, kv_len, CHUNK):
            p = tl.load(P + row + start + cols, mask=start + cols < kv_len, other=0.0).to(tl.float32)  # [CHUNK]
            dp = tl.load(dP + row + start + cols, mask=start + cols < kv_len, other=0.0)  # [CHUNK]
            tl.store(dS + row + start + cols, (p * (dp - delta) * scale).to(dS.dtype.element_ty), mask=start + cols < kv_len)


def standard_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    p: torch.Tensor,
    do: torch.Tensor,
    *,
    scale: float | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute dQ, dK and dV of standard attention from P and dO.

    P is [batch, heads, seq_len, kv_len], dO is like q.

    q, do [batch, heads, seq_len, head_dim], k and v [batch, heads, kv_len, head_dim]: float16, bfloat16 or float32, any
    strides; p contiguous, of the same dtype. scale is 1/sqrt(head_dim) unless given; tiles are block_m x block_n.
    Extra memory: dP (float32) and dS, N N_k elements each per head.
    Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    shape = check_attention("standard_bwd", q, k, v, scale=scale, block_m=block_m, block_n=block_n)
    batch, heads, seq_len, kv_len = shape.batch, shape.heads, shape.seq_len, shape.kv_len
    dp = torch.empty((batch, heads, seq_len, kv_len), dtype=torch.float32, device=q.device)
    ds = torch.empty((batch, heads, seq_len, kv_len), dtype=q.dtype, device=q.device)
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    row_blocks, col_blocks = triton.cdiv(seq_len, block_m), triton.cdiv(kv_len, block_n)
    one_read = kv_len <= ROW_ON_CHIP
    chunk = padded(kv_len) if one_read else CHUNK
    blocks = {"HEAD_DIM": shape.head_dim, "BLOCK_M": block_m, "BLOCK_N": block_n}
    options = standard_options(block_m, block_n, shape.head_dim, q.element_size(), shared_memory_bytes(q.device))
    transposed = standard_options(block_n, block_m, shape.head_dim, q.element_size(), shared_memory_bytes(q.device))
    with launching("standard_bwd", q.device):
        standard_transposed_product[(col_blocks, heads, batch)](
            p, do, dv, *do.stride(), *dv.stride(), seq_len, kv_len, **blocks, **transposed
        )
        standard_scores[(row_blocks * col_blocks, heads, batch)](
            do, v, dp, *do.stride(), *v.stride(), seq_len, kv_len, 1.0, CAUSAL=False, **blocks, **options
        )
        standard_softmax_backward[(seq_len, heads, batch)](
            p, dp, ds, shape.scale, seq_len, kv_len, CHUNK=chunk, ONE_READ=one_read, **softmax_options(chunk)
        )
        standard_output[(row_blocks, heads, batch)](ds, k, dq, *k.stride(), *dq.stride(), seq_len, kv_len, **blocks, **options)
        standard_transposed_product[(col_blocks, heads, batch)](
            ds, q, dk, *q.stride(), *dk.stride(), seq_len, kv_len, **blocks, **transposed
        )
    return dq, dk, dv
