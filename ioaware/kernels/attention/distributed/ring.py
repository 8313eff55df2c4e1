"""Compute ring attention: K and V go round the ring of ranks.

They move one block a step, while each rank attends to the block it holds.

Liu, Zaharia, Abbeel 2023, arXiv 2310.01889, on P ranks. Rank r, in step t, for block s = r - t (mod P):
    forward    send block s to r + 1, receive block s - 1 from r - 1; meanwhile merge the attention of Q_r to block s
    backward   the same; meanwhile add to dQ_r, and compute the block's dK and dV, which follow it round the ring in float32 and
               reach their owner, who adds its own, after P - 1 transfers
"""

from __future__ import annotations

import torch

from ioaware.kernels.attention.distributed.layout import Layout
from ioaware.kernels.attention.distributed.local_attention import Gradients, Partial, attend, attend_backward
from ioaware.kernels.attention.distributed.transfers import Pending

Saved = tuple[torch.Tensor, ...]


def ring_forward(layout: Layout, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, Saved]:
    """Return the output of this rank's queries, and what the backward pass needs."""
    partial, block = Partial.empty(q), torch.stack((k, v))
    for step in range(layout.ranks):
        source = (layout.rank - step) % layout.ranks
        arriving = _pass_on(layout, block, step)
        runs = layout.runs(layout.queries[layout.rank], layout.keys[source])
        attend(partial, q, block, runs, layout.scale, transfers=arriving is not None)
        block = _arrived(arriving, block)
    o = partial.o.to(q.dtype)
    return o, (q, k, v, o, partial.lse)


def ring_backward(layout: Layout, saved: Saved, do: torch.Tensor) -> Gradients:
    """Return the gradients of this rank's queries, keys and values."""
    q, k, v, o, lse = saved
    rank, ranks = layout.rank, layout.ranks
    dq, block = torch.zeros(q.shape, dtype=torch.float32, device=q.device), torch.stack((k, v))
    sums: tuple[Pending, torch.Tensor] | None = None  # dK and dV of the block that is next, under way
    own = torch.zeros(block.shape, dtype=torch.float32, device=q.device)
    for step in range(ranks):
        source = (rank - step) % ranks
        arriving = _pass_on(layout, block, step)
        grad = own if step == 0 else torch.zeros(block.shape, dtype=torch.float32, device=q.device)
        runs = layout.runs(layout.queries[rank], layout.keys[source])
        under_way = arriving is not None or sums is not None
        attend_backward(dq, grad, (q, o, do, lse), block, runs, layout.scale, transfers=under_way)
        if sums:
            sums[0].wait()
            grad += sums[1]
        if step:  # the owner's part stays with it
            sums = _send_sums(layout, grad, k, step)
        block = _arrived(arriving, block)
    if sums:
        sums[0].wait()
        own += sums[1]
    return dq.to(q.dtype), own[0].to(k.dtype), own[1].to(v.dtype)


def _pass_on(layout: Layout, block: torch.Tensor, step: int) -> tuple[Pending, torch.Tensor] | None:
    """Send the block to the right and receive the next one from the left.

    None in the last step.
    """
    if step == layout.ranks - 1:
        return None
    right, left = (layout.rank + 1) % layout.ranks, (layout.rank - 1) % layout.ranks
    arriving = layout.empty_keys(block[0], (layout.rank - step - 1) % layout.ranks)
    return layout.transfers.exchange([(right, block)], [(left, arriving)]), arriving


def _arrived(arriving: tuple[Pending, torch.Tensor] | None, block: torch.Tensor) -> torch.Tensor:
    """Wait for the next block; return this one where none follows."""
    if arriving is None:
        return block
    arriving[0].wait()
    return arriving[1]


def _send_sums(layout: Layout, grad: torch.Tensor, k: torch.Tensor, step: int) -> tuple[Pending, torch.Tensor]:
    """Send a block's dK and dV to the right, and receive the next step's block's.

    After the last step, the received ones are of one's own block.
    """
    right, left = (layout.rank + 1) % layout.ranks, (layout.rank - 1) % layout.ranks
    arriving = layout.empty_keys(k, (layout.rank - step - 1) % layout.ranks, torch.float32)
    return layout.transfers.exchange([(right, grad)], [(left, arriving)]), arriving
