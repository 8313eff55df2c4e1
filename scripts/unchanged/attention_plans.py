"""Targets to compile: attention at shapes that reach all plans of its kernels.

Attention is called through its public function.

The sizes are one text, so that nothing of them is followed as a symbol: kernels are compiled for sizes as given in any case.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch

from ioaware.cases import find_case
from ioaware.kernels.attention import attention

Work = Callable[[], object]


def forward(sizes: str, device: str = "cuda") -> Work:
    """Return the forward pass at these sizes.

    Sizes are `head_dim`, `heads`, `kv_heads`, `seq_len` and `kv_len`, then dtype, causal and backend.
    """
    given = json.loads(sizes)
    q, k, v = _tensors(given, device, grad=False)
    return lambda: attention(q, k, v, causal=given["causal"], backend=given["backend"])


def gradients(sizes: str, device: str = "cuda") -> Work:
    """The forward and the backward pass."""
    given = json.loads(sizes)
    q, k, v = _tensors(given, device, grad=True)
    do, in_order = torch.randn_like(q), given.get("deterministic", False)

    def run() -> object:
        o = attention(q, k, v, causal=given["causal"], backend=given["backend"], deterministic=in_order)
        return torch.autograd.grad([o], [q, k, v], [do])

    return run


def case(sizes: str, device: str = "cuda") -> Any:
    """A case, by its name and its parameters."""
    given = json.loads(sizes)
    found = find_case(given.pop("case"))
    return found.build(device=device, **{**{param.name: param.default for param in found.params}, **given})


def _tensors(given: dict[str, Any], device: str, *, grad: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q [1, heads, seq_len, head_dim] and k, v [1, kv_heads, kv_len, head_dim]."""
    q = (1, given["heads"], given["seq_len"], given["head_dim"])
    k = (1, given["kv_heads"], given["kv_len"], given["head_dim"])
    dtype = getattr(torch, given["dtype"])
    q, k, v = (torch.randn(shape, dtype=dtype, device=device).requires_grad_(grad) for shape in (q, k, k))
    return q, k, v
