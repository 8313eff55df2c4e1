"""Compute attention of local rows to one block of keys, forward and backward.

Partial results and gradients are accumulated.

On a GPU the kernels are those of `attention`; on the CPU plain torch computes in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ioaware.kernels.attention.dispatch import backward_by, cached_choice, forward_by
from ioaware.kernels.attention.distributed.merge_partials import merge_in_torch, merge_on_gpu
from ioaware.kernels.attention.distributed.sharding import Run

Pair = tuple[torch.Tensor, torch.Tensor]
Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Partial:
    """Output and log-sum-exp of rows over the keys so far, float32."""

    o: torch.Tensor
    lse: torch.Tensor

    @staticmethod
    def empty(q: torch.Tensor) -> Partial:
        """Return the result over no key: zeros and -inf."""
        o = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
        return Partial(o, torch.full(q.shape[:3], -torch.inf, dtype=torch.float32, device=q.device))

    def merge(self, o: torch.Tensor, lse: torch.Tensor, first: int = 0) -> None:
        """Merge the result of rows [first, first + len) over other keys."""
        if not o.numel():
            return
        rows = slice(first, first + o.shape[2])
        merge = merge_in_torch if o.device.type == "cpu" else merge_on_gpu
        merge(self.o[:, :, rows], self.lse[:, :, rows], o, lse)


def attend(partial: Partial, q: torch.Tensor, kv: torch.Tensor, runs: Sequence[Run], scale: float, *, transfers: bool) -> None:
    """Merge the attention of q to a block of keys and values into `partial`.

    The block is kv [2, batch, kv_heads, rows, head_dim]. transfers: whether some are under way meanwhile. NCCL's kernel then
    has some of the SMs, and persistent CTAs with equal shares would end as late as it runs. So each takes one work item.
    """
    for run in runs:
        rows = q[:, :, run.first : run.first + run.rows]
        k, v = kv[0, :, :, : run.keys], kv[1, :, :, : run.keys]
        o, lse = local_forward(rows, k, v, causal=run.causal, scale=scale, persistent=not transfers)
        partial.merge(o, lse, run.first)


def attend_backward(
    dq: torch.Tensor,
    dkv: torch.Tensor,
    saved: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    kv: torch.Tensor,
    runs: Sequence[Run],
    scale: float,
    *,
    transfers: bool,
) -> None:
    """Add the gradients of q and of one block of keys and values to dq and dkv.

    Both dq and dkv are float32.

    saved: q, o, do [batch, heads, rows, head_dim] and lse [batch, heads, rows], over all keys of all ranks. transfers: as in
    `attend`.
    """
    for run in runs:
        rows = slice(run.first, run.first + run.rows)
        q, o, do, lse = (tensor[:, :, rows] for tensor in saved)
        k, v = kv[0, :, :, : run.keys], kv[1, :, :, : run.keys]
        grads = local_backward(q, k, v, o, lse, do, causal=run.causal, scale=scale, persistent=not transfers)
        dq[:, :, rows] += grads[0]
        dkv[0, :, :, : run.keys] += grads[1]
        dkv[1, :, :, : run.keys] += grads[2]


def local_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float, persistent: bool = True
) -> Pair:
    """Return o and its log-sum-exp in float32.

    Layouts and masks are those of `attention`, and rows or keys may be none.
    """
    if not q.numel() or not k.numel():
        empty = Partial.empty(q)
        return empty.o.to(q.dtype), empty.lse
    if q.device.type == "cpu":
        return _forward_in_torch(q, k, v, causal, scale)
    chosen, factor, _ = cached_choice(q, k, v, scale, None)
    return forward_by(q, k, v, causal, factor, chosen.name, persistent=persistent)


def local_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, do: torch.Tensor,
    *, causal: bool, scale: float, persistent: bool = True,
) -> Gradients:  # fmt: skip
    """Return dq, dk and dv of these keys.

    Here o and lse may be over more keys than these.
    """
    if not q.numel() or not k.numel():
        return torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    if q.device.type == "cpu":
        return _backward_in_torch(q, k, v, o, lse, do, causal, scale)
    chosen, factor, _ = cached_choice(q, k, v, scale, None)
    in_order = torch.are_deterministic_algorithms_enabled()
    return backward_by(
        q, k, v, o, lse.contiguous(), do, causal, factor, chosen.name, deterministic=in_order, persistent=persistent
    )


def _forward_in_torch(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float) -> Pair:
    s = _scores(q, k, causal, scale)  # [batch, kv_heads, group, N, N_k]
    lse = torch.logsumexp(s, 4)
    p = torch.exp(s - torch.where(lse == -torch.inf, 0.0, lse).unsqueeze(4))
    return (p @ v.float().unsqueeze(2)).flatten(1, 2), lse.flatten(1, 2)


def _backward_in_torch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, do: torch.Tensor,
    causal: bool, scale: float,
) -> Gradients:  # fmt: skip
    kv_heads = k.shape[1]
    lse = torch.where(lse == -torch.inf, torch.inf, lse).unflatten(1, (kv_heads, -1))  # a row without a visible key: P = 0
    grad, delta = (x.unflatten(1, (kv_heads, -1)) for x in (do.float(), (o.float() * do.float()).sum(3, keepdim=True)))
    p = torch.exp(_scores(q, k, causal, scale) - lse.unsqueeze(4))
    ds = p * (grad @ v.float().unsqueeze(2).mT - delta) * scale
    dk = (ds.mT @ q.float().unflatten(1, (kv_heads, -1))).sum(2)
    return (ds @ k.float().unsqueeze(2)).flatten(1, 2), dk, (p.mT @ grad).sum(2)


def _scores(q: torch.Tensor, k: torch.Tensor, causal: bool, scale: float) -> torch.Tensor:
    """Return the scaled and masked scores [batch, kv_heads, group, N, N_k] in float32."""
    s = q.float().unflatten(1, (k.shape[1], -1)) @ k.float().unsqueeze(2).mT * scale
    if not causal:
        return s
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(k.shape[2] - q.shape[2])
    return s.masked_fill(~seen, -torch.inf)
