"""Race PyTorch's flex_attention, compiled for each shape.

Its documentation recommends this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ioaware.bench.attention_points import Point
from ioaware.bench.backend import Candidate

if TYPE_CHECKING:
    from torch import Tensor


def flex(point: Point) -> Candidate:
    """Return the candidate, with a block mask where causal, built outside the call."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiler: Any = torch
    compiler._dynamo.reset()  # the compiler keeps a few shapes of a function and then refuses more
    call: Any = compiler.compile(flex_attention, dynamic=False)
    mask: Any = create_block_mask(_not_later, None, None, point.seq_len, point.kv_len) if point.causal else None

    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return call(q, k, v, block_mask=mask, enable_gqa=point.heads != point.kv_heads)

    return Candidate(forward)


def _not_later(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:  # noqa: ARG001 - flex_attention's signature
    """Return whether query i sees key j: j <= i."""
    return query >= key
