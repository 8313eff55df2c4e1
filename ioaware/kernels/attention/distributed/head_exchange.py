"""Compute attention with heads divided among ranks.

An all-to-all makes whole sequences of some heads from parts of all heads, and back.

DeepSpeed-Ulysses: Jacobs et al. 2023, arXiv 2309.14509. Rank p computes query heads p H / P to (p + 1) H / P - 1 of the whole
sequence:
    forward    send Q, K and V of each rank's heads to it; attend; send O back to the owners of its rows
    backward   send dO as Q before; compute the gradients; send dQ, dK and dV back
Where ranks are more than key heads, P / H_kv ranks receive the same key head, and its owners add their gradients.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ioaware.kernels.attention.distributed.layout import Layout
from ioaware.kernels.attention.distributed.local_attention import Gradients, local_backward, local_forward
from ioaware.kernels.attention.distributed.sharding import Segment, sort_shards, take_segments
from ioaware.kernels.attention.distributed.transfers import Message

Saved = tuple[torch.Tensor, ...]


def head_exchange_forward(layout: Layout, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, Saved]:
    """Return the output of this rank's queries, and what the backward pass needs."""
    (q_all,) = _to_heads(layout, [q], layout.queries)
    k_all, v_all = _to_heads(layout, [k, v], layout.keys)
    o_all, lse = local_forward(q_all, k_all, v_all, causal=layout.causal, scale=layout.scale)
    o_all = o_all.to(q.dtype)
    o = torch.empty_like(q, memory_format=torch.contiguous_format)
    _to_rows(layout, [o_all], layout.queries, [o])
    return o, (q_all, k_all, v_all, o_all, lse)


def head_exchange_backward(layout: Layout, saved: Saved, do: torch.Tensor) -> Gradients:
    """Return the gradients of this rank's queries, keys and values."""
    q, k, v, o, lse = saved
    (do_all,) = _to_heads(layout, [do], layout.queries)
    dq_all, dk_all, dv_all = (
        grad.to(q.dtype) for grad in local_backward(q, k, v, o, lse, do_all, causal=layout.causal, scale=layout.scale)
    )
    batch, _, rows, head_dim = do.shape
    dq = do.new_empty((batch, layout.heads, rows, head_dim))
    dk, dv = layout.empty_keys(k.new_empty((batch, layout.kv_heads, 0, head_dim)), layout.rank)
    _to_rows(layout, [dq_all], layout.queries, [dq])
    _to_rows(layout, [dk_all, dv_all], layout.keys, [dk, dv])
    return dq, dk, dv


def heads_of(rank: int, ranks: int, heads: int) -> slice:
    """Return the heads that a rank computes.

    Of fewer heads than ranks one, which it shares with other ranks.
    """
    first = rank * heads // ranks
    return slice(first, first + max(1, heads // ranks))


def _to_heads(layout: Layout, tensors: Sequence[torch.Tensor], held: Sequence[Sequence[Segment]]) -> list[torch.Tensor]:
    """Send each rank its heads of this rank's rows.

    Return this rank's heads of all rows, by position.

    tensors: [batch, heads, rows, head_dim] of one shape; held: the positions of each rank's rows.
    """
    rank, ranks, heads = layout.rank, layout.ranks, tensors[0].shape[1]
    parts = {peer: torch.stack([x[:, heads_of(peer, ranks, heads)] for x in tensors]) for peer in range(ranks)}
    arriving: dict[int, torch.Tensor] = {rank: parts[rank]}
    for peer in _others(layout):
        length = sum(end - start for start, end in held[peer])
        arriving[peer] = parts[rank].new_empty((*parts[rank].shape[:3], length, parts[rank].shape[4]))
    _exchange_all(layout, parts, arriving)
    joined, _ = sort_shards([arriving[peer] for peer in range(ranks)], held, dim=3)
    return list(joined.unbind())


def _to_rows(
    layout: Layout, tensors: Sequence[torch.Tensor], held: Sequence[Sequence[Segment]], out: Sequence[torch.Tensor]
) -> None:
    """Send each rank its rows of this rank's heads.

    Fill `out` with all heads of this rank's rows.

    Heads that come from several ranks are added in float32.
    """
    rank, ranks, heads = layout.rank, layout.ranks, out[0].shape[1]
    whole = [(0, sum(end - start for segments in held for start, end in segments))]
    parts = {peer: take_segments(torch.stack(list(tensors)), whole, held[peer], dim=3) for peer in range(ranks)}
    arriving = {peer: torch.empty_like(parts[rank]) for peer in _others(layout)} | {rank: parts[rank]}
    _exchange_all(layout, parts, arriving)
    sums = torch.zeros((len(out), *out[0].shape), dtype=torch.float32, device=out[0].device)
    for peer in range(ranks):
        sums[:, :, heads_of(peer, ranks, heads)] += arriving[peer]
    for tensor, total in zip(out, sums, strict=True):
        tensor.copy_(total)


def _others(layout: Layout) -> list[int]:
    return [peer for peer in range(layout.ranks) if peer != layout.rank]


def _exchange_all(layout: Layout, parts: dict[int, torch.Tensor], arriving: dict[int, torch.Tensor]) -> None:
    """Send every other rank its part and receive from it."""
    sends: list[Message] = [(peer, parts[peer].contiguous()) for peer in _others(layout)]
    receives: list[Message] = [(peer, arriving[peer]) for peer in _others(layout)]
    layout.transfers.exchange(sends, receives).wait()
