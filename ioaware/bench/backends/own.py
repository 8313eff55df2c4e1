"""ioaware's own attention in the race: what it chooses by itself, and its plain Triton path on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ioaware.bench.attention_points import Point
from ioaware.bench.registry import Contestant

if TYPE_CHECKING:
    from torch import Tensor


def chosen(point: Point) -> Contestant:
    """The kernel that `attention` takes unasked; `ran` is what it says of that."""
    from ioaware.kernels.attention import attention

    def ran() -> str:
        backend = attention.backend
        return f"{backend.name}: {backend.why}" if backend else ""

    return Contestant(lambda q, k, v: attention(q, k, v, causal=point.causal), ran=ran)


def plain(point: Point) -> Contestant:
    """Plain Triton, which is what every other GPU gets."""
    from ioaware.kernels.attention import attention

    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, causal=point.causal, backend="triton")

    return Contestant(forward, ran=lambda: "triton: requested")
