"""Describe attention with grouped heads as a `Work`.

It holds seeded inputs, the kernel, and its float64 reference.
"""

from __future__ import annotations

import torch

from ioaware.case import Work
from ioaware.kernels.attention.flash2_backward import flash2_backward
from ioaware.kernels.attention.grouped import grouped_attention
from ioaware.kernels.attention.references.inputs import attention_inputs
from ioaware.kernels.attention.references.reference import attention_backward_reference, attention_reference
from ioaware.kernels.attention.references.work import TOLERANCES


def grouped_work(
    name: str,
    *,
    device: str,
    batch: int,
    heads: int,
    kv_heads: int,
    seq_len: int,
    kv_len: int,
    head_dim: int,
    dtype: str,
    causal: bool,
    block_m: int,
    block_n: int,
    splits: int = 1,
    sram_elements: int | None = None,
    scale: float | None = None,
) -> Work:
    """Return the work of the grouped kernel of that name.

    Names that end in packed pack the rows of a group.

    scale is 1/sqrt(head_dim) unless given, which a backward pass is not; sram_elements has set the blocks.
    """
    del sram_elements
    element = getattr(torch, dtype)
    q, _, _ = attention_inputs(batch, heads, seq_len, 1, head_dim, dtype=element, device=device)
    _, k, v = attention_inputs(batch, kv_heads, 1, kv_len, head_dim, dtype=element, device=device, seed=1)
    blocks = {"causal": causal, "block_m": block_m, "block_n": block_n}
    group = heads // kv_heads

    def expand(x: torch.Tensor) -> torch.Tensor:
        return x.repeat_interleave(group, 1)

    if name == "gqa_bwd":
        do, _, _ = attention_inputs(batch, heads, seq_len, 1, head_dim, dtype=element, device=device, seed=2)
        o, lse = grouped_attention(q, k, v, **blocks)

        def reference() -> tuple[torch.Tensor, ...]:
            dq, dk, dv = attention_backward_reference(q, expand(k), expand(v), do, causal=causal)
            return dq, *(x.unflatten(1, (kv_heads, group)).sum(2) for x in (dk, dv))

        return Work(
            lambda: flash2_backward(q, k, v, o, lse, do, **blocks),
            inputs=(q, k, v, do),
            reference=reference,
            tolerance=2 * TOLERANCES[q.dtype],
        )
    return Work(
        lambda: grouped_attention(q, k, v, **blocks, scale=scale, packed=name.endswith("packed"), splits=splits)[0],
        inputs=(q, k, v),
        reference=lambda: attention_reference(q, expand(k), expand(v), causal=causal, scale=scale),
        tolerance=TOLERANCES[q.dtype],
    )
