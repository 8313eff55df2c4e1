"""Compute a decoder's attention in separate steps.

Every intermediate passes through HBM.

It drops before it normalises (the notebook's order), with Z dropout's mask:
    q, k, v = norm(Q), norm(K), norm(V)      a program per row block, which reads X and writes Y
    S = scale q k^T, -inf where masked       standard attention's kernels (`standard.py`), with S in float32
    S = -inf where Z drops                   a program per tile, in place
    A = softmax(S);  O = A v                 standard attention's kernels; a row that is dropped whole gives zeros
Elements: standard attention's, twice those of Q, K and V, and twice N N_k. Z comes from its counter and is not stored.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.tiles import load_block, store_block
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.launching.launch import launching, shared_memory_bytes
from ioaware.kernels.attention.launching.on_chip_limits import ROW_ON_CHIP, padded, softmax_options, standard_options
from ioaware.kernels.attention.standard import CHUNK, standard_output, standard_scores, standard_softmax
from ioaware.kernels.decoder.dropout import kept_pairs, threshold
from ioaware.kernels.decoder.layer_norm import load_normalised


@triton.jit
def layer_norm_forward(
    X, Y, stride_xb, stride_xh, stride_xn, stride_xd, stride_yb, stride_yh, stride_yn, stride_yd,
    num_rows, HEAD_DIM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute Y = norm(X) of one row block. Grid (row blocks, heads, batch)."""
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    X += batch * stride_xb + head * stride_xh
    Y += batch * stride_yb + head * stride_yh
    row = tl.program_id(0) * BLOCK
    y = load_normalised(X, row, num_rows, stride_xn, stride_xd, HEAD_DIM, BLOCK)  # [B, d]
    store_block(y, Y, row, 0, num_rows, HEAD_DIM, stride_yn, stride_yd, BLOCK, HEAD_DIM)


@triton.jit
def decoder_drop(S, seq_len, kv_len, seed, limit, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """S = -inf where dropout drops. Grid (tiles of S, heads, batch)."""
    tile, head, batch = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    batch_head = batch * tl.num_programs(1) + head
    col_blocks = tl.cdiv(kv_len, BLOCK_N)
    row, col = tile // col_blocks * BLOCK_M, tile % col_blocks * BLOCK_N
    S += batch_head * seq_len * kv_len
    s = load_block(S, row, col, seq_len, kv_len, kv_len, 1, BLOCK_M, BLOCK_N)  # [B_r, B_c]
    s = tl.where(kept_pairs(seed + batch_head, row, col, kv_len, limit, BLOCK_M, BLOCK_N), s, float("-inf"))
    store_block(s, S, row, col, seq_len, kv_len, kv_len, 1, BLOCK_M, BLOCK_N)


def decoder_steps(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    dropout_percent: int = 10,
    seed: int = 0,
    block_m: int = 64,
    block_n: int = 64,
) -> torch.Tensor:
    """Compute what `decoder` computes in the notebook's order, step by step.

    Arguments and errors are those of `decoder`. Extra memory: S (float32) and A, N N_k elements each per head, and q, k, v.
    """
    return forward_steps(q, k, v, dropout_percent=dropout_percent, seed=seed, block_m=block_m, block_n=block_n)[0]


def forward_steps(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, dropout_percent: int, seed: int, block_m: int, block_n: int
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]:
    """Compute `decoder_steps`, and keep what the backward pass reads.

    Returns O, the LayerNorms (q, k, v), and A.
    """
    shape = check_attention("decoder_steps", q, k, v, scale=None, block_m=block_m, block_n=block_n)
    batch, heads, seq_len, kv_len = shape.batch, shape.heads, shape.seq_len, shape.kv_len
    normed = (
        torch.empty(q.shape, dtype=q.dtype, device=q.device),
        torch.empty(k.shape, dtype=k.dtype, device=k.device),
        torch.empty(v.shape, dtype=v.dtype, device=v.device),
    )
    s = torch.empty((batch, heads, seq_len, kv_len), dtype=torch.float32, device=q.device)
    a = torch.empty((batch, heads, seq_len, kv_len), dtype=q.dtype, device=q.device)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    row_blocks, col_blocks = triton.cdiv(seq_len, block_m), triton.cdiv(kv_len, block_n)
    tiles = {"BLOCK_M": block_m, "BLOCK_N": block_n}
    chunk = padded(kv_len) if kv_len <= ROW_ON_CHIP else CHUNK
    options = standard_options(block_m, block_n, shape.head_dim, q.element_size(), shared_memory_bytes(q.device))
    with launching("decoder_steps", q.device):
        for x, y, block in zip((q, k, v), normed, (block_m, block_n, block_n), strict=True):
            layer_norm_forward[(triton.cdiv(x.shape[2], block), heads, batch)](
                x, y, *x.stride(), *y.stride(), x.shape[2], HEAD_DIM=shape.head_dim, BLOCK=block
            )
        standard_scores[(row_blocks * col_blocks, heads, batch)](
            normed[0], normed[1], s, *normed[0].stride(), *normed[1].stride(), seq_len, kv_len, shape.scale,
            CAUSAL=True, HEAD_DIM=shape.head_dim, **tiles, **options,
        )  # fmt: skip
        decoder_drop[(row_blocks * col_blocks, heads, batch)](s, seq_len, kv_len, seed, threshold(dropout_percent), **tiles)
        standard_softmax[(seq_len, heads, batch)](
            s, a, seq_len, kv_len, CHUNK=chunk, ONE_READ=kv_len <= ROW_ON_CHIP, **softmax_options(chunk)
        )
        standard_output[(row_blocks, heads, batch)](
            a, normed[2], o, *normed[2].stride(), *o.stride(), seq_len, kv_len, HEAD_DIM=shape.head_dim, **tiles, **options
        )
    return o, normed, a
