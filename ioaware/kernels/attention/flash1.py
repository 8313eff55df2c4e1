"""Compute FlashAttention's forward pass: column blocks outside, rows inside.

O, l and m are in HBM, read and written at every step.

Dao et al. 2022, arXiv 2205.14135, Algorithm 1, per (batch, head):
    O = 0, l = 0, m = -inf in HBM                                                                        (line 2)
    for each column block j:                    load K_j, V_j                                            (lines 5, 6)
        for each row block i:                   load Q_i, O_i, l_i, m_i;  S = Q_i K_j^T                  (lines 7 to 9)
            m~ = rowmax S;  P = exp(S - m~);  l~ = rowsum P;  m_new = max(m_i, m~)                       (lines 10, 11)
            l_new = e^(m_i - m_new) l_i + e^(m~ - m_new) l~                                              (line 11)
            write O_i = (l_i e^(m_i - m_new) O_i + e^(m~ - m_new) P V_j) / l_new, l_i = l_new, m_i = m_new (lines 12, 13)
Reads 2 N_k d + T_c (2 N d + 2 N) elements and writes (N d + 2 N)(1 + T_c), T_c = ceil(N_k / B_c). Causal starts each inner loop
at the first row block that sees a key of column block j.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.tiles import load_block, store_block, tile_side
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.launching.launch import launching, shared_memory_bytes
from ioaware.kernels.attention.launching.on_chip_limits import flash1_options


@triton.jit
def flash1_init(
    O, L, M, stride_ob, stride_oh, stride_on, stride_od, seq_len, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr
):  # fmt: skip
    """Initialise O = 0, l = 0, m = -inf (line 2). Grid (row blocks, heads, batch)."""
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    O += batch * stride_ob + head * stride_oh
    statistics = (batch * tl.num_programs(1) + head) * seq_len
    row = tl.program_id(0) * BLOCK_M

    zeros = tl.zeros([tile_side(BLOCK_M), tile_side(HEAD_DIM)], tl.float32)  # [B_r, d]
    store_block(zeros, O, row, 0, seq_len, HEAD_DIM, stride_on, stride_od, BLOCK_M, HEAD_DIM)
    lanes = tl.arange(0, tile_side(BLOCK_M))
    inside = (lanes < BLOCK_M) & (row + lanes < seq_len)
    tl.store(L + statistics + row + lanes, 0.0, mask=inside)
    tl.store(M + statistics + row + lanes, float("-inf"), mask=inside)


@triton.jit
def flash1_kernel(
    Q, K, V, O, L, M,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_on, stride_od,
    seq_len, kv_len, scale,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    WINDOW: tl.constexpr = 0, GLOBAL: tl.constexpr = 0,
):  # fmt: skip
    """Compute one head.

    Grid (heads, batch): O_i, l_i, m_i in HBM belong to one program.

    With WINDOW, only blocks |i - j| <= WINDOW and column blocks j < GLOBAL are visited (block_sparse.py).
    """
    head, batch = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    Q += batch * stride_qb + head * stride_qh
    K += batch * stride_kb + head * stride_kh
    V += batch * stride_vb + head * stride_vh
    O += batch * stride_ob + head * stride_oh
    L += (batch * tl.num_programs(0) + head) * seq_len
    M += (batch * tl.num_programs(0) + head) * seq_len
    row_lanes = tl.arange(0, tile_side(BLOCK_M))
    col_lanes = tl.arange(0, tile_side(BLOCK_N))

    for j in range(tl.cdiv(kv_len, BLOCK_N)):
        col = j * BLOCK_N
        k = load_block(K, col, 0, kv_len, HEAD_DIM, stride_kn, stride_kd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        v = load_block(V, col, 0, kv_len, HEAD_DIM, stride_vn, stride_vd, BLOCK_N, HEAD_DIM)  # [B_c, d]
        first = 0
        if CAUSAL:
            first = tl.maximum(col - (kv_len - seq_len), 0) // BLOCK_M
        end = tl.cdiv(seq_len, BLOCK_M)
        if WINDOW > 0:
            first = tl.where(j < GLOBAL, first, tl.maximum(j - WINDOW, first))
            end = tl.where(j < GLOBAL, end, tl.minimum(j + WINDOW + 1, end))
        for i in range(first, end):
            row = i * BLOCK_M
            rows = row + row_lanes
            inside = (row_lanes < BLOCK_M) & (rows < seq_len)
            q = load_block(Q, row, 0, seq_len, HEAD_DIM, stride_qn, stride_qd, BLOCK_M, HEAD_DIM)  # [B_r, d]
            o = load_block(O, row, 0, seq_len, HEAD_DIM, stride_on, stride_od, BLOCK_M, HEAD_DIM)  # [B_r, d]
            l = tl.load(L + rows, mask=inside, other=0.0)  # [B_r]
            m = tl.load(M + rows, mask=inside, other=float("-inf"))  # [B_r]

            s = tl.dot(q, k.T, input_precision="ieee") * scale  # [B_r, B_c]
            visible = tl.minimum(kv_len - col, BLOCK_N)  # keys of block j, or those of it visible to each row
            if CAUSAL:
                visible = tl.minimum(visible, rows + (kv_len - seq_len) + 1 - col)[:, None]  # [B_r, 1]
            s = tl.where(col_lanes[None, :] < visible, s, float("-inf"))
            m_block = tl.max(s, 1)  # [B_r]
            m_new = tl.maximum(m, m_block)  # [B_r]
            # A row without a visible key: -inf - (-inf) is NaN; with 0 as the reference its terms are e^-inf = 0.
            block_shift = tl.where(m_block == float("-inf"), 0.0, m_block)
            shift = tl.where(m_new == float("-inf"), 0.0, m_new)
            p = tl.exp(s - block_shift[:, None])  # [B_r, B_c]
            old = tl.exp(m - shift) * l  # [B_r]
            new = tl.exp(m_block - shift)  # [B_r]
            l_new = old + new * tl.sum(p, 1)  # [B_r]
            divisor = tl.where(l_new == 0.0, 1.0, l_new)
            pv = tl.dot(p.to(v.dtype), v, input_precision="ieee")  # [B_r, d]
            o = (old / divisor)[:, None] * o.to(tl.float32) + (new / divisor)[:, None] * pv

            store_block(o, O, row, 0, seq_len, HEAD_DIM, stride_on, stride_od, BLOCK_M, HEAD_DIM)
            tl.store(L + rows, l_new, mask=inside)
            tl.store(M + rows, m_new, mask=inside)
        # The next j reads O_i, l_i, m_i that other threads of this program have written.
        tl.debug_barrier()


def flash1(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> torch.Tensor:
    """Compute softmax(scale Q K^T) V by FlashAttention's Algorithm 1.

    O is rounded to the inputs' dtype at every step.

    q [batch, heads, seq_len, head_dim], k and v [batch, heads, kv_len, head_dim]: float16, bfloat16 or float32, any strides.
    causal aligns the last query with the last key; scale is 1/sqrt(head_dim) unless given; B_r = block_m, B_c = block_n.
    Returns o like q; a row without a visible key gives zeros. Extra memory: l and m, 2 N elements of float32 per head.
    Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    return flash1_forward(q, k, v, causal=causal, scale=scale, block_m=block_m, block_n=block_n)[0]


def flash1_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute o as `flash1` does.

    Return it with l and m [batch, heads, seq_len] in float32.
    """
    shape = check_attention("flash1", q, k, v, scale=scale, block_m=block_m, block_n=block_n)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    l = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    m = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    with launching("flash1", q.device):
        flash1_init[(triton.cdiv(shape.seq_len, block_m), shape.heads, shape.batch)](
            o, l, m, *o.stride(), shape.seq_len, HEAD_DIM=shape.head_dim, BLOCK_M=block_m
        )  # fmt: skip
        flash1_kernel[(shape.heads, shape.batch)](
            q, k, v, o, l, m, *q.stride(), *k.stride(), *v.stride(), *o.stride(),
            shape.seq_len, shape.kv_len, shape.scale,
            CAUSAL=causal, HEAD_DIM=shape.head_dim, BLOCK_M=block_m, BLOCK_N=block_n,
            **flash1_options(block_m, block_n, shape.head_dim, q.element_size(), shared_memory_bytes(q.device)),
        )  # fmt: skip
    return o, l, m
