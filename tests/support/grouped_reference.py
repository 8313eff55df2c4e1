"""Grouped-query attention: random inputs and the float64 reference.

The reference is of output and log-sum-exp.
"""

from __future__ import annotations

import math

import torch

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def grouped_inputs(
    heads: int,
    kv_heads: int,
    seq_len: int,
    kv_len: int,
    head_dim: int,
    dtype: torch.dtype = torch.float32,
    batch: int = 2,
    spread: float = 1,
) -> Tensors:
    """Return q [batch, heads, seq_len, head_dim], k and v on the CPU.

    k and v are stored as in caches.

    Caches are [batch, kv_len, kv_heads, head_dim].
    """
    generator = torch.Generator().manual_seed(0)
    q = torch.randn((batch, heads, seq_len, head_dim), generator=generator).to(dtype)
    k, v = (torch.randn((batch, kv_len, kv_heads, head_dim), generator=generator).to(dtype) for _ in range(2))
    return q * spread, k.transpose(1, 2), v.transpose(1, 2)


def grouped_reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return O and the natural log-sum-exp, differentiable.

    Shapes: q [batch, heads, seq_len, head_dim]; k, v [batch, kv_heads, kv_len, head_dim]. A row that sees no key gives zeros
    and -inf.
    """
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    s = q @ k.mT * (1 / math.sqrt(q.shape[3]) if scale is None else scale)
    seen = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device)
    if causal:
        seen = seen.tril(k.shape[2] - q.shape[2])
    weights = torch.softmax(s.masked_fill(~seen, -1e300), -1) * seen
    return weights @ v, torch.logsumexp(s.masked_fill(~seen, -math.inf), -1)
