"""Check outputs against float64 attention and gradients.

The check covers as many heads as is quick.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ioaware.bench.attention_points import Point

if TYPE_CHECKING:
    from torch import Tensor

SCORES = 2**27
"""Scores in float64 at a time and in total: 1 GB.

Every head of a short point, one head of the longest.
"""

TOLERANCES = {"float16": 2e-3, "bfloat16": 1e-2}
"""Relative Frobenius error allowed.

Twice that for gradients, which pass through P and dS rounded to the dtype.
"""


def tolerance(point: Point) -> float:
    """Return the relative Frobenius error allowed; twice TOLERANCES backward."""
    return TOLERANCES[point.dtype] * (2 if point.what == "backward" else 1)


def sampled(point: Point) -> list[int]:
    """Return key heads of the flattened [batch * kv_heads] to check.

    They are evenly spread, including the last.
    """
    every = point.batch * point.kv_heads
    one = point.heads // point.kv_heads * point.seq_len * point.kv_len
    count = max(1, min(every, SCORES // one))
    return sorted({every - 1 - i * every // count for i in range(count)})


class Reference:
    """Exact outputs for one point's inputs, (q, k, v) and dO backward.

    Computed once for every back end.
    """

    def __init__(self, point: Point, inputs: Sequence[Tensor]) -> None:
        import torch

        self.point = point
        self.rows = torch.tensor(sampled(point), device=inputs[0].device)
        self.exact = _exact(point, *(self._heads(tensor) for tensor in inputs))

    def _heads(self, tensor: Tensor) -> Tensor:
        """Return [sampled key heads, query heads of each, rows, head_dim] in float64."""
        batch, count, length, width = tensor.shape
        kv_heads = self.point.kv_heads
        return tensor.detach().reshape(batch * kv_heads, count // kv_heads, length, width)[self.rows].double()

    def error(self, outputs: Sequence[Tensor]) -> float:
        """Return the largest relative Frobenius error of the outputs.

        They are (o,) or (dq, dk, dv), over the sampled heads.

        Infinite where any element of any head is not finite, or a shape is wrong.
        """
        import torch

        if not all(bool(output.isfinite().all()) for output in outputs):
            return math.inf
        errors: list[float] = []
        for output, wanted in zip(outputs, self.exact, strict=True):
            found = self._heads(output)
            if found.shape != wanted.shape:
                return math.inf
            errors.append(float(torch.linalg.vector_norm(found - wanted) / torch.linalg.vector_norm(wanted)))
        return max(errors)


def _exact(point: Point, q: Tensor, k: Tensor, v: Tensor, do: Tensor | None = None) -> tuple[Tensor, ...]:
    """Return in float64 (o,), or (dq, dk, dv) given do. q, do [n, group, seq_len, d].

    K, v [n, 1, kv_len, d].
    """
    import torch

    scale = 1 / math.sqrt(point.head_dim)
    p = q @ k.transpose(-1, -2) * scale
    if point.causal:
        seen = torch.ones(point.seq_len, point.kv_len, dtype=torch.bool, device=q.device)
        p.masked_fill_(~seen.tril(point.kv_len - point.seq_len), -math.inf)
    p = torch.softmax(p, -1)
    if do is None:
        return (p @ v,)
    dv = p.transpose(-1, -2) @ do  # FlashAttention-2, section 2.3: dV = P^T dO, dS = P (dP - rowsum(dO O))
    delta = (do * (p @ v)).sum(-1, keepdim=True)
    ds = p.mul_(do @ v.transpose(-1, -2) - delta).mul_(scale)
    dk = ds.transpose(-1, -2) @ q
    return ds @ k, dk.sum(1, keepdim=True), dv.sum(1, keepdim=True)
