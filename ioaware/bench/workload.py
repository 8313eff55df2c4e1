"""Build a candidate's work at a point: the calls to time.

They are on enough sets of inputs to defeat the caches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ioaware.bench.attention_points import Point
from ioaware.bench.backend import Candidate

if TYPE_CHECKING:
    from torch import Tensor

ENOUGH_BYTES = 2**30
"""Least inputs of all sets together, in bytes.

A set is then evicted from an L2 of 60 MB before its next use.
"""
MAX_SETS = 16


def shapes(point: Point) -> list[tuple[int, ...]]:
    """Return the shapes of q, k and v, and of dO backward."""
    q = (point.batch, point.heads, point.seq_len, point.head_dim)
    k = (point.batch, point.kv_heads, point.kv_len, point.head_dim)
    return [q, k, k, *([q] if point.what == "backward" else [])]


def sets(point: Point) -> int:
    """Return how many sets of inputs to cycle through.

    One where arithmetic is the limit.
    """
    return min(MAX_SETS, -(-ENOUGH_BYTES // point.compulsory_bytes)) if point.bound_by_bytes else 1


def work(point: Point, candidate: Candidate, inputs: list[Tensor]) -> Callable[[], tuple[Tensor, ...]]:
    """Return a call on these inputs that returns (o,), or backward (dq, dk, dv).

    The latter is of a completed forward pass.
    """
    if point.what != "backward":
        q, k, v = inputs
        return lambda: (candidate.forward(q, k, v),)
    import torch

    *leaves, do = inputs
    q, k, v = (leaf.detach().requires_grad_() for leaf in leaves)
    o = candidate.forward(q, k, v)
    gradient: Any = torch.autograd.grad
    return lambda: cast("tuple[Tensor, ...]", gradient(o, (q, k, v), do, retain_graph=True))
