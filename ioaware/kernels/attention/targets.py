"""Targets that are no case: `ioaware derive ioaware.kernels.attention.targets:hopper -p seq_len=4096`, and measure likewise."""

from __future__ import annotations

import torch

from ioaware.case import Work
from ioaware.kernels.attention.attention import attention
from ioaware.kernels.attention.inputs import attention_inputs
from ioaware.kernels.attention.reference import attention_reference
from ioaware.kernels.attention.work import tolerance


def hopper(
    batch: int = 1, heads: int = 16, seq_len: int = 4096, head_dim: int = 128, causal: bool = False, device: str = "cuda"
) -> Work:
    """The Hopper forward kernel on random fp16 inputs [batch, heads, seq_len, head_dim], checked against float64."""
    q, k, v = attention_inputs(batch, heads, seq_len, seq_len, head_dim, dtype=torch.float16, device=device)
    return Work(
        lambda: attention(q, k, v, causal=causal, backend="hopper"),
        inputs=(q, k, v),
        reference=lambda: attention_reference(q, k, v, causal=causal),
        tolerance=tolerance("hopper", q.dtype),
    )
