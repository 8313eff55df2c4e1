"""Attention in float64: what every kernel's output is held against."""

from __future__ import annotations

import math

import torch

CHUNK_ELEMENTS = 2**27
"""Elements of S held at a time: one GiB in float64."""


def attention_reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """softmax(scale Q K^T) V in float64, a head and a chunk of rows at a time.

    q [batch, heads, seq_len, head_dim], k and v [batch, heads, kv_len, head_dim] on any device. causal aligns the last
    query with the last key; a row that sees no key gives zeros; scale is 1/sqrt(head_dim) unless given.
    """
    batch, heads, seq_len, head_dim = q.shape
    kv_len = k.shape[2]
    factor = 1 / math.sqrt(head_dim) if scale is None else scale
    rows_at_once = max(1, CHUNK_ELEMENTS // kv_len)
    o = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    for b in range(batch):
        for h in range(heads):
            keys, values = k[b, h].double(), v[b, h].double()  # [N_k, d]
            for row in range(0, seq_len, rows_at_once):
                s = (q[b, h, row : row + rows_at_once].double() * factor) @ keys.T  # [rows, N_k]
                if causal:
                    rows = torch.arange(row, row + s.shape[0], device=q.device)
                    cols = torch.arange(kv_len, device=q.device)
                    s.masked_fill_(cols > rows[:, None] + (kv_len - seq_len), -math.inf)
                weights = torch.softmax(s, dim=1).nan_to_num_(nan=0.0) if causal else torch.softmax(s, dim=1)
                o[b, h, row : row + rows_at_once] = weights @ values
    return o
