"""Describe backward passes as a `Work`.

It holds seeded inputs, what the forward pass saves, the kernel, and float64 gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ioaware.case import Work
from ioaware.kernels.attention.flash1 import flash1_forward
from ioaware.kernels.attention.flash1_backward import flash1_backward
from ioaware.kernels.attention.flash2 import flash2
from ioaware.kernels.attention.flash2_backward import flash2_backward
from ioaware.kernels.attention.references.inputs import attention_inputs
from ioaware.kernels.attention.references.reference import attention_backward_reference
from ioaware.kernels.attention.references.work import TOLERANCES
from ioaware.kernels.attention.small_cache_backward import small_cache_backward
from ioaware.kernels.attention.standard import standard_forward
from ioaware.kernels.attention.standard_backward import standard_backward

Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Backward = Callable[..., Callable[[], Gradients]]


def standard_bwd(q: Any, k: Any, v: Any, do: Any, *, causal: bool, **blocks: int) -> Callable[[], Gradients]:
    """Return Algorithm 3 on the P of a forward pass."""
    _, p = standard_forward(q, k, v, causal=causal, **blocks)
    return lambda: standard_backward(q, k, v, p, do, **blocks)


def flash1_bwd(q: Any, k: Any, v: Any, do: Any, *, causal: bool, **blocks: int) -> Callable[[], Gradients]:
    """Return Algorithm 4 on the O, l and m of a forward pass."""
    o, l, m = flash1_forward(q, k, v, causal=causal, **blocks)
    return lambda: flash1_backward(q, k, v, o, l, m, do, causal=causal, **blocks)


def flash2_bwd(
    q: Any, k: Any, v: Any, do: Any, *, causal: bool, atomic: bool = False, **blocks: int
) -> Callable[[], Gradients]:
    """Return the work of FlashAttention-2's backward pass.

    It begins with O and the log-sum-exp of a forward pass.
    """
    o, lse = flash2(q, k, v, causal=causal, **blocks)
    return lambda: flash2_backward(q, k, v, o, lse, do, causal=causal, atomic=atomic, **blocks)


def flash2_bwd_atomic(q: Any, k: Any, v: Any, do: Any, *, causal: bool, **blocks: int) -> Callable[[], Gradients]:
    """Return FlashAttention-2's backward pass with dQ by atomics."""
    return flash2_bwd(q, k, v, do, causal=causal, atomic=True, **blocks)


def small_cache_bwd(q: Any, k: Any, v: Any, do: Any, *, block_m: int) -> Callable[[], Gradients]:
    """Return the work of the backward pass in square tiles.

    It begins with O and the log-sum-exp of a forward pass.
    """
    o, lse = flash2(q, k, v)
    return lambda: small_cache_backward(q, k, v, o, lse, do, block_m=block_m)


BACKWARDS: dict[str, Backward] = {
    one.__name__: one for one in (standard_bwd, flash1_bwd, flash2_bwd, flash2_bwd_atomic, small_cache_bwd)
}


def backward_work(
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
    **options: Any,
) -> Work:
    """Return the work of the backward pass of that name on random inputs.

    It returns (dq, dk, dv).

    The forward pass runs here, outside the work. kv_len is seq_len unless given; `options` are mask and blocks, which
    sram_elements has set.
    """
    del sram_elements
    sizes = (batch, heads, seq_len, seq_len if kv_len is None else kv_len, head_dim)
    q, k, v = attention_inputs(*sizes, dtype=getattr(torch, dtype), device=device)
    do, _, _ = attention_inputs(*sizes, dtype=getattr(torch, dtype), device=device, seed=1)
    return Work(
        BACKWARDS[name](q, k, v, do, **options),
        inputs=(q, k, v, do),
        reference=lambda: attention_backward_reference(q, k, v, do, causal=bool(options.get("causal", False))),
        tolerance=TOLERANCES[q.dtype] * (6 if name == "flash1_bwd" else 2),
    )
