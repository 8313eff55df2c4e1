"""Compute attention in query and key chunks.

Each key chunk gives a partial result, as self-attention without O(n^2) memory does.

Rabe and Staats 2021, arXiv 2112.05682, section 3, per (batch, head), in a program that takes one query chunk after another:
    for each key chunk j:       load K_j, V_j;  S = Q_i K_j^T;  m_j = rowmax S;  P = exp(S - m_j)
                                write P V_j, rowsum P and m_j to a scratch of T_c chunks
    combine:                    m = max_j m_j;  O_i = sum_j e^(m_j - m) (P V_j) / sum_j e^(m_j - m) (rowsum P)_j
The scratch has B_r (d + 2) numbers of float32 per key chunk and is used again by the next query chunk. With B_c = sqrt(N_k)
the extra memory is O(sqrt N) per head, and O(1) per query if the chunks are combined as they come, which is FlashAttention-2.
Elements: reads N d + 2 N_k d T_r and N (d + 2) T_c of scratch; writes N (d + 2) T_c of scratch and N d. Causal skips
the key chunks that no query of the chunk sees.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.masks import last_column_block, visible_pairs
from ioaware.kernels.attention.blocks.tiles import load_block, store_block, tile_side
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.launching.launch import launching, shared_memory_bytes
from ioaware.kernels.attention.launching.on_chip_limits import flash1_options

LOWEST = tl.constexpr(torch.finfo(torch.float32).min)
"""Maximum of a row that sees no key of a chunk: -inf - (-inf) is NaN."""


@triton.jit
def chunked_kernel(
    Q, K, V, O, Part, L, M,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_on, stride_od,
    seq_len, kv_len, scale,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute one head.

    Grid (heads, batch). Part [batch heads, T_c, B_r, d], L and M [batch heads, T_c, B_r], float32.
    """
    head, batch = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    chunks = tl.cdiv(kv_len, BLOCK_N)
    scratch = (batch * tl.num_programs(0) + head) * chunks * BLOCK_M
    Q += batch * stride_qb + head * stride_qh
    K += batch * stride_kb + head * stride_kh
    V += batch * stride_vb + head * stride_vh
    O += batch * stride_ob + head * stride_oh
    lanes = tl.arange(0, tile_side(BLOCK_M))
    for row in range(0, seq_len, BLOCK_M):
        rows_left = tl.minimum(seq_len - row, BLOCK_M)
        inside = lanes < rows_left
        q = load_block(Q, row, 0, seq_len, HEAD_DIM, stride_qn, stride_qd, BLOCK_M, HEAD_DIM)  # [B_r, d]
        visible = last_column_block(row, seq_len, kv_len, CAUSAL, BLOCK_M, BLOCK_N)
        for j in range(visible):
            col, part = j * BLOCK_N, scratch + j * BLOCK_M
            k = load_block(K, col, 0, kv_len, HEAD_DIM, stride_kn, stride_kd, BLOCK_N, HEAD_DIM)  # [B_c, d]
            v = load_block(V, col, 0, kv_len, HEAD_DIM, stride_vn, stride_vd, BLOCK_N, HEAD_DIM)  # [B_c, d]
            pairs = visible_pairs(row, col, seq_len, kv_len, CAUSAL, BLOCK_M, BLOCK_N)
            s = tl.where(pairs, tl.dot(q, k.T, input_precision="ieee") * scale, float("-inf"))  # [B_r, B_c]
            m = tl.where(inside, tl.max(s, 1), 0.0)  # [B_r]
            if CAUSAL:
                m = tl.maximum(m, LOWEST)
            p = tl.exp(s - m[:, None])  # [B_r, B_c]
            pv = tl.dot(p.to(v.dtype), v, input_precision="ieee")  # [B_r, d]
            store_block(pv, Part + part * HEAD_DIM, 0, 0, rows_left, HEAD_DIM, HEAD_DIM, 1, BLOCK_M, HEAD_DIM)
            tl.store(L + part + lanes, tl.sum(p, 1), mask=inside)
            tl.store(M + part + lanes, m, mask=inside)
        tl.debug_barrier()  # the scratch is read by other threads than wrote it
        o = tl.zeros([tile_side(BLOCK_M), tile_side(HEAD_DIM)], tl.float32)  # [B_r, d]
        l = tl.zeros([tile_side(BLOCK_M)], tl.float32)  # [B_r]
        m = tl.full([tile_side(BLOCK_M)], float("-inf"), tl.float32)  # [B_r]
        for j in range(visible):
            part = scratch + j * BLOCK_M
            m_chunk = tl.load(M + part + lanes, mask=inside, other=0.0)  # [B_r]
            pv = load_block(Part + part * HEAD_DIM, 0, 0, rows_left, HEAD_DIM, HEAD_DIM, 1, BLOCK_M, HEAD_DIM)  # [B_r, d]
            m_new = tl.maximum(m, m_chunk)
            old, new = tl.exp(m - m_new), tl.exp(m_chunk - m_new)
            l = l * old + tl.load(L + part + lanes, mask=inside, other=1.0) * new
            o = o * old[:, None] + pv * new[:, None]
            m = m_new
        if CAUSAL:
            l = tl.where(l == 0.0, 1.0, l)  # no visible key: O = 0
        store_block(o / l[:, None], O, row, 0, seq_len, HEAD_DIM, stride_on, stride_od, BLOCK_M, HEAD_DIM)
        tl.debug_barrier()  # the next query chunk writes what this one has read


def chunked(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> torch.Tensor:
    """Compute softmax(scale Q K^T) V in chunks.

    Query chunks have block_m rows, key chunks block_n.

    q [batch, heads, seq_len, head_dim], k and v [batch, heads, kv_len, head_dim]: float16, bfloat16 or float32, any strides.
    causal aligns the last query with the last key. Returns o like q.
    Extra memory: block_m (d + 2) ceil(N_k / block_n) numbers of float32 per head.
    Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    shape = check_attention("chunked", q, k, v, scale=scale, block_m=block_m, block_n=block_n)
    chunks = (shape.batch, shape.heads, triton.cdiv(shape.kv_len, block_n), block_m)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    part = torch.empty((*chunks, shape.head_dim), dtype=torch.float32, device=q.device)
    l, m = (torch.empty(chunks, dtype=torch.float32, device=q.device) for _ in range(2))
    with launching("chunked", q.device):
        chunked_kernel[(shape.heads, shape.batch)](
            q, k, v, o, part, l, m, *q.stride(), *k.stride(), *v.stride(), *o.stride(),
            shape.seq_len, shape.kv_len, shape.scale,
            CAUSAL=causal, HEAD_DIM=shape.head_dim, BLOCK_M=block_m, BLOCK_N=block_n,
            **flash1_options(block_m, block_n, shape.head_dim, q.element_size(), shared_memory_bytes(q.device)),
        )  # fmt: skip
    return o
