"""What outputs are held against where heads share key heads: attention and its log-sum-exp in float64, differentiable."""

from __future__ import annotations

import math

import torch


def grouped_reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """O and the natural log-sum-exp. q [batch, heads, seq_len, head_dim]; k, v [batch, kv_heads, kv_len, head_dim]. A row that
    sees no key gives zeros and -inf."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    s = q @ k.mT * (1 / math.sqrt(q.shape[3]) if scale is None else scale)
    seen = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device)
    if causal:
        seen = seen.tril(k.shape[2] - q.shape[2])
    weights = torch.softmax(s.masked_fill(~seen, -1e300), -1) * seen
    return weights @ v, torch.logsumexp(s.masked_fill(~seen, -math.inf), -1)
