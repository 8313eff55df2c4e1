"""Attention on any GPU that Triton compiles for: `flash2`'s kernel, launched once for every member of a group of heads."""

# Triton's functions have no Python types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportCallIssue=false, reportArgumentType=false
from __future__ import annotations

import torch
import triton

from ioaware.kernels.attention.flash2 import LOG2_E, flash2_kernel
from ioaware.kernels.attention.launch import launching, shared_memory_bytes
from ioaware.kernels.attention.limits import flash2_options


def blocks(head_dim: int) -> tuple[int, int]:
    """B_r and B_c: 128 rows where they fit beside O in registers, fewer for wide heads."""
    return (128, 64) if head_dim <= 128 else (64, 32)


def portable_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale Q K^T) V and its natural log-sum-exp. q [batch, heads, seq_len, head_dim], k and v
    [batch, kv_heads, kv_len, head_dim], kv_heads a divisor of heads, any strides. Returns o like q and lse
    [batch, heads, seq_len] in float32, contiguous."""
    batch, heads, seq_len, head_dim = q.shape
    kv_heads, kv_len = k.shape[1], k.shape[2]
    group = heads // kv_heads
    block_m, block_n = blocks(head_dim)
    o = torch.empty_like(q)
    lse = torch.empty((group, batch, kv_heads, seq_len), dtype=torch.float32, device=q.device)
    options = flash2_options(block_m, block_n, head_dim, q.element_size(), shared_memory_bytes(q.device))
    with launching("attention", q.device):
        for member in range(group):  # heads member, member + group, ...: each has a key head of its own
            q_part, o_part = q[:, member::group], o[:, member::group]
            flash2_kernel[(triton.cdiv(seq_len, block_m), kv_heads, batch)](
                q_part, k, v, o_part, lse[member], *q_part.stride(), *k.stride(), *v.stride(), *o_part.stride(),
                seq_len, kv_len, scale * LOG2_E.value,
                CAUSAL=causal, HEAD_DIM=head_dim, BLOCK_M=block_m, BLOCK_N=block_n, **options,
            )  # fmt: skip
    return o, lse.permute(1, 2, 0, 3).reshape(batch, heads, seq_len).contiguous()
