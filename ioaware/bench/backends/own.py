"""Race ioaware's own attention.

It races its own choice of kernel, and its plain Triton path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ioaware.bench.attention_points import Point
from ioaware.bench.backend import Candidate

if TYPE_CHECKING:
    from torch import Tensor


def chosen(point: Point) -> Candidate:
    """Return the kernel that `attention` chooses; `ran` is its name and the reason."""
    from ioaware.kernels.attention import attention

    def ran() -> str:
        backend = attention.backend
        return f"{backend.name}: {backend.why}" if backend else ""

    return Candidate(lambda q, k, v: attention(q, k, v, causal=point.causal), ran=ran)


def plain(point: Point) -> Candidate:
    """Return plain Triton, which runs on every other GPU."""
    from ioaware.kernels.attention import attention

    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, causal=point.causal, backend="triton")

    return Candidate(forward, ran=lambda: "triton: requested")
