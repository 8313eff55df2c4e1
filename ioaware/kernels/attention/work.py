"""Attention as a `Work`: seeded inputs on a device, the kernel, and its float64 reference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from ioaware.case import Work
from ioaware.kernels.attention.flash1 import flash1
from ioaware.kernels.attention.flash2 import flash2
from ioaware.kernels.attention.flash_lse import flash_lse
from ioaware.kernels.attention.inputs import attention_inputs
from ioaware.kernels.attention.logsoftmax import logsoftmax_attention
from ioaware.kernels.attention.reference import attention_reference, logsoftmax_reference
from ioaware.kernels.attention.standard import standard

TOLERANCES = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 1e-5}


def tolerance(name: str, dtype: torch.dtype) -> float:
    """Return the relative Frobenius error allowed against float64; thrice for flash1, which rounds O at every step."""
    return TOLERANCES[dtype] * (3 if name == "flash1" else 1)


FORWARDS: dict[str, Callable[..., torch.Tensor | tuple[torch.Tensor, torch.Tensor]]] = {
    "standard": standard,
    "flash1": flash1,
    "flash2": flash2,
    "flash_lse": flash_lse,
    "logsoftmax_attention": logsoftmax_attention,
    "logsoftmax_linear": partial(logsoftmax_attention, linear=True),
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
    causal: bool = False,
    block_m: int,
    block_n: int,
    **_: object,
) -> Work:
    """Return the work of the kernel of that name on random inputs.

    kv_len is seq_len unless given; other parameters are ignored.
    """
    q, k, v = attention_inputs(
        batch, heads, seq_len, seq_len if kv_len is None else kv_len, head_dim, dtype=getattr(torch, dtype), device=device
    )

    mask = {} if name.startswith("logsoftmax") else {"causal": causal}

    def run() -> torch.Tensor:
        output = FORWARDS[name](q, k, v, **mask, block_m=block_m, block_n=block_n)
        return output[0] if isinstance(output, tuple) else output

    return Work(
        run,
        inputs=(q, k, v),
        reference=lambda: attention_reference(q, k, v, **mask) if mask else logsoftmax_reference(q, k, v),
        tolerance=tolerance(name, q.dtype),
    )
