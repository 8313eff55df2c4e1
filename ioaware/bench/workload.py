"""A contestant's work at a point: the calls to time, on as many sets of inputs as keep the caches from helping."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ioaware.bench.attention_points import Point
from ioaware.bench.registry import Contestant

if TYPE_CHECKING:
    from torch import Tensor

ENOUGH_BYTES = 2**30
"""Inputs of all sets together, at least: what an L2 of 60 MB keeps of a set is then gone before its next turn."""
MOST_SETS = 16


def shapes(point: Point) -> list[tuple[int, ...]]:
    """Of q, k and v, and of dO backward."""
    q = (point.batch, point.heads, point.seq_len, point.head_dim)
    k = (point.batch, point.kv_heads, point.kv_len, point.head_dim)
    return [q, k, k, *([q] if point.what == "backward" else [])]


def sets(point: Point) -> int:
    """How many sets of inputs to go round; one where arithmetic binds and no cache can serve what is read again."""
    return min(MOST_SETS, -(-ENOUGH_BYTES // point.compulsory_bytes)) if point.bound_by_bytes else 1


def work(point: Point, contestant: Contestant, inputs: list[Tensor]) -> Callable[[], tuple[Tensor, ...]]:
    """A call that returns (o,), or backward (dq, dk, dv) of a forward pass that has run, on these inputs."""
    if point.what != "backward":
        q, k, v = inputs
        return lambda: (contestant.forward(q, k, v),)
    import torch

    *leaves, do = inputs
    q, k, v = (leaf.detach().requires_grad_() for leaf in leaves)
    o = contestant.forward(q, k, v)
    gradient: Any = torch.autograd.grad
    return lambda: cast("tuple[Tensor, ...]", gradient(o, (q, k, v), do, retain_graph=True))
