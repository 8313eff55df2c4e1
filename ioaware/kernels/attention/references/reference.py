"""Compute attention and its gradients in float64, the reference of every kernel."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

CHUNK_ELEMENTS = 2**27
"""Elements of S in memory at a time: one GiB in float64."""


def attention_reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """Compute softmax(scale Q K^T) V in float64.

    One head and one chunk of rows are computed at a time.

    q [batch, heads, seq_len, head_dim], k and v [batch, heads, kv_len, head_dim] on any device. causal aligns the last
    query with the last key; a row without a visible key gives zeros; scale is 1/sqrt(head_dim) unless given.
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


def masked_attention_reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    visible: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Compute attention in float64 where `visible` is True.

    `visible` takes rows [n, 1] and keys [1, N_k]; layouts are as above.

    A row without a visible key gives zeros.
    """
    rows_at_once = max(1, CHUNK_ELEMENTS // k.shape[2])
    o = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    cols = torch.arange(k.shape[2], device=q.device)[None, :]
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            keys, values = k[b, h].double(), v[b, h].double()  # [N_k, d]
            for row in range(0, q.shape[2], rows_at_once):
                s = q[b, h, row : row + rows_at_once].double() @ keys.T / math.sqrt(q.shape[3])  # [rows, N_k]
                rows = torch.arange(row, row + s.shape[0], device=q.device)[:, None]
                s.masked_fill_(~visible(rows, cols), -math.inf)
                o[b, h, row : row + rows_at_once] = torch.softmax(s, dim=1).nan_to_num_(nan=0.0) @ values
    return o


def attention_backward_reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, *, causal: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute dQ, dK and dV in float64 for the gradient of the output.

    do is [batch, heads, seq_len, head_dim].

    One head and one chunk of rows at a time: P = softmax(scale Q K^T), dV = P^T dO, dS = P (dO V^T - rowsum(dO O)),
    dQ = scale dS K, dK = scale dS^T Q (Dao 2023, arXiv 2307.08691, section 2.3). Layouts and mask as above.
    """
    batch, heads, seq_len, head_dim = q.shape
    kv_len, scale = k.shape[2], 1 / math.sqrt(head_dim)
    rows_at_once = max(1, CHUNK_ELEMENTS // 4 // kv_len)  # four matrices of the size of S at a time
    dq, dk, dv = (torch.zeros(x.shape, dtype=torch.float64, device=x.device) for x in (q, k, v))
    for b in range(batch):
        for h in range(heads):
            keys, values = k[b, h].double(), v[b, h].double()  # [N_k, d]
            for row in range(0, seq_len, rows_at_once):
                at = slice(row, row + rows_at_once)
                queries, gradient = q[b, h, at].double(), do[b, h, at].double()  # [rows, d]
                s = queries @ keys.T * scale  # [rows, N_k]
                if causal:
                    rows = torch.arange(row, row + s.shape[0], device=q.device)
                    cols = torch.arange(kv_len, device=q.device)
                    s.masked_fill_(cols > rows[:, None] + (kv_len - seq_len), -math.inf)
                p = torch.softmax(s, dim=1).nan_to_num_(nan=0.0)
                delta = (gradient * (p @ values)).sum(1, keepdim=True)
                ds = p * (gradient @ values.T - delta) * scale
                dq[b, h, at] = ds @ keys
                dk[b, h] += ds.T @ queries
                dv[b, h] += p.T @ gradient
    return dq, dk, dv


def logsoftmax_reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Compute log_softmax(scale Q K^T) V in float64.

    One head and one chunk of rows are computed at a time; layouts are as above.
    """
    rows_at_once = max(1, CHUNK_ELEMENTS // k.shape[2])
    o = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            keys, values = k[b, h].double(), v[b, h].double()  # [N_k, d]
            for row in range(0, q.shape[2], rows_at_once):
                s = q[b, h, row : row + rows_at_once].double() @ keys.T / math.sqrt(q.shape[3])  # [rows, N_k]
                o[b, h, row : row + rows_at_once] = torch.log_softmax(s, dim=1) @ values
    return o
