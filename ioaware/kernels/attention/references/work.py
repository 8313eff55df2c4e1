"""Describe attention as a `Work`.

It holds seeded inputs on a device, the kernel, and its float64 reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from ioaware.case import Work
from ioaware.kernels.attention.block_sparse import block_sparse
from ioaware.kernels.attention.chunked import chunked
from ioaware.kernels.attention.flash1 import flash1
from ioaware.kernels.attention.flash2 import flash2
from ioaware.kernels.attention.flash_lse import flash_lse
from ioaware.kernels.attention.logsoftmax import logsoftmax_attention
from ioaware.kernels.attention.references.inputs import attention_inputs
from ioaware.kernels.attention.references.reference import attention_reference, logsoftmax_reference, masked_attention_reference
from ioaware.kernels.attention.rowwise import rowwise
from ioaware.kernels.attention.square_tiling import square_tiling
from ioaware.kernels.attention.standard import standard

TOLERANCES = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 1e-5}


def tolerance(name: str, dtype: torch.dtype) -> float:
    """Return the relative Frobenius error allowed against float64.

    Three times as much where O is rounded at every step.
    """
    return TOLERANCES[dtype] * (3 if name in ("flash1", "block_sparse") else 1)


FORWARDS: dict[str, Callable[..., torch.Tensor | tuple[torch.Tensor, torch.Tensor]]] = {
    "standard": standard,
    "flash1": flash1,
    "flash2": flash2,
    "flash_lse": flash_lse,
    "logsoftmax_attention": logsoftmax_attention,
    "logsoftmax_linear": partial(logsoftmax_attention, linear=True),
    "chunked": chunked,
    "square_tiling": square_tiling,
    "online_rowwise": partial(rowwise, one_pass=False),
    "flash_rowwise": rowwise,
    "block_sparse": block_sparse,
}


def attention_work(
    name: str,
    *,
    device: str,
    batch: int,
    heads: int,
    seq_len: int,
    kv_len: int | None = None,
    head_dim: int,
    dtype: str,
    sram_elements: int | None = None,
    scale: float | None = None,
    **options: Any,
) -> Work:
    """Return the work of the kernel of that name on random inputs.

    `options` are the kernel's own.

    kv_len is seq_len unless given, scale 1/sqrt(head_dim); sram_elements has set the blocks among the options.
    """
    del sram_elements
    sizes = (batch, heads, seq_len, seq_len if kv_len is None else kv_len, head_dim)
    q, k, v = attention_inputs(*sizes, dtype=getattr(torch, dtype), device=device)

    def run() -> torch.Tensor:
        output = FORWARDS[name](q, k, v, scale=scale, **options)
        return output[0] if isinstance(output, tuple) else output

    return Work(
        run,
        inputs=(q, k, v),
        reference=lambda: _reference(name, q, k, v, scale, options),
        tolerance=tolerance(name, q.dtype),
    )


def _reference(
    name: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None, options: Mapping[str, Any]
) -> torch.Tensor:
    """Return what the kernel of that name computes, in float64."""
    if scale is not None:  # the references scale by 1/sqrt(head_dim)
        q = q.double() * (scale * math.sqrt(q.shape[3]))
    if name.startswith("logsoftmax"):
        return logsoftmax_reference(q, k, v)
    if name == "block_sparse":

        def visible(rows: torch.Tensor, cols: torch.Tensor) -> torch.Tensor:
            i, j = rows // options["block_m"], cols // options["block_n"]
            seen = cols <= rows + (k.shape[2] - q.shape[2]) if options.get("causal", False) else True
            return (((i - j).abs() <= options["window"]) | (j < options["global_blocks"])) & seen

        return masked_attention_reference(q, k, v, visible)
    return attention_reference(q, k, v, causal=bool(options.get("causal", False)))
