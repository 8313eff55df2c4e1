"""Attention through its public function at shapes that take its kernels through all of their plans: targets to compile.

`import ioaware.kernels.attention` is the same in both layouts, and so is how the function chooses kernels and their blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ioaware.kernels.attention import attention

Work = Callable[[], object]


def _tensors(sizes: dict[str, int], dtype: str, device: str, grad: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q [batch, heads, seq_len, head_dim] and k, v [batch, kv_heads, kv_len, head_dim]."""
    q = (sizes["batch"], sizes["heads"], sizes["seq_len"], sizes["head_dim"])
    k = (sizes["batch"], sizes["kv_heads"], sizes["kv_len"], sizes["head_dim"])
    kind = getattr(torch, dtype)
    q, k, v = (torch.randn(shape, dtype=kind, device=device).requires_grad_(grad) for shape in (q, k, k))
    return q, k, v


def forward(
    batch: int = 1, heads: int = 16, kv_heads: int = 16, seq_len: int = 4096, kv_len: int = 4096, head_dim: int = 128,
    causal: bool = False, dtype: str = "float16", backend: str = "hopper", device: str = "cuda",
) -> Work:  # fmt: skip
    """The forward pass by one of the back ends."""
    sizes = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "seq_len": seq_len, "kv_len": kv_len, "head_dim": head_dim}
    q, k, v = _tensors(sizes, dtype, device, grad=False)
    chosen: Any = backend
    return lambda: attention(q, k, v, causal=causal, backend=chosen)


def gradients(
    batch: int = 1, heads: int = 16, kv_heads: int = 16, seq_len: int = 4096, kv_len: int = 4096, head_dim: int = 128,
    causal: bool = False, dtype: str = "float16", backend: str = "hopper", deterministic: bool = False, device: str = "cuda",
) -> Work:  # fmt: skip
    """The forward and the backward pass."""
    sizes = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "seq_len": seq_len, "kv_len": kv_len, "head_dim": head_dim}
    q, k, v = _tensors(sizes, dtype, device, grad=True)
    chosen: Any = backend
    do = torch.randn_like(q)

    def run() -> object:
        o = attention(q, k, v, causal=causal, backend=chosen, deterministic=deterministic)
        return torch.autograd.grad([o], [q, k, v], [do])

    return run
