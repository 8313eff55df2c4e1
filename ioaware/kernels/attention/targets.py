"""Define targets that are not cases, checked against float64.

For example `ioaware derive ioaware.kernels.attention.targets:hopper -p seq_len=4096`, and measure likewise.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ioaware.case import Work
from ioaware.kernels.attention.dispatch import BackendName, attention
from ioaware.kernels.attention.hopper.backward import hopper_backward as gradients
from ioaware.kernels.attention.hopper.forward import hopper_forward
from ioaware.kernels.attention.portable.backward import attention_backward
from ioaware.kernels.attention.portable.forward import portable_forward
from ioaware.kernels.attention.references.inputs import attention_inputs
from ioaware.kernels.attention.references.reference import attention_backward_reference, attention_reference
from ioaware.kernels.attention.references.work import tolerance


def hopper(
    batch: int = 1, heads: int = 16, seq_len: int = 4096, head_dim: int = 128, causal: bool = False, device: str = "cuda"
) -> Work:
    """Return the Hopper forward kernel on random fp16 inputs.

    Their shape is [batch, heads, seq_len, head_dim].
    """
    q, k, v = attention_inputs(batch, heads, seq_len, seq_len, head_dim, dtype=torch.float16, device=device)
    return _forward("hopper", "hopper", q, k, v, causal)


def hopper_backward(
    batch: int = 1,
    heads: int = 16,
    seq_len: int = 4096,
    head_dim: int = 128,
    causal: bool = False,
    deterministic: bool = False,
    device: str = "cuda",
) -> Work:
    """Return the Hopper backward kernels on random fp16 inputs.

    Their shape is [batch, heads, seq_len, head_dim].

    The work returns (dq, dk, dv); o and the log-sum-exp are computed outside.
    """
    q, k, v = attention_inputs(batch, heads, seq_len, seq_len, head_dim, dtype=torch.float16, device=device)
    do = _output_gradient(batch, heads, seq_len, head_dim, device, seed=1)
    scale = 1 / math.sqrt(head_dim)
    o, lse = hopper_forward(q, k, v, causal=causal, scale=scale)
    return _backward(
        lambda: gradients(q, k, v, o, lse, do, causal=causal, scale=scale, deterministic=deterministic),
        lambda: attention_backward_reference(q, k, v, do, causal=causal),
        "hopper", (q, k, v, o, lse, do),
    )  # fmt: skip


def decode(
    batch: int = 1,
    heads: int = 32,
    kv_heads: int = 8,
    seq_len: int = 1,
    kv_len: int = 32768,
    head_dim: int = 128,
    causal: bool = False,
    device: str = "cuda",
) -> Work:
    """Return decode on random fp16 inputs.

    q is [batch, heads, seq_len, head_dim], k and v [batch, kv_heads, kv_len, head_dim].
    """
    q, k, v = _grouped(batch, heads, kv_heads, seq_len, kv_len, head_dim, device)
    return _forward("decode", "decode", q, k, v, causal)


def portable(
    batch: int = 1,
    heads: int = 16,
    kv_heads: int = 16,
    seq_len: int = 4096,
    kv_len: int | None = None,
    head_dim: int = 128,
    causal: bool = False,
    device: str = "cuda",
) -> Work:
    """Return the portable forward kernel on random fp16 inputs.

    Kv_len is seq_len unless given.
    """
    q, k, v = _grouped(batch, heads, kv_heads, seq_len, seq_len if kv_len is None else kv_len, head_dim, device)
    return _forward("portable", "triton", q, k, v, causal)


def portable_backward(
    batch: int = 1,
    heads: int = 16,
    kv_heads: int = 16,
    seq_len: int = 4096,
    kv_len: int | None = None,
    head_dim: int = 128,
    causal: bool = False,
    device: str = "cuda",
) -> Work:
    """Return the portable backward kernels on random fp16 inputs.

    Kv_len is seq_len unless given.

    The work returns dq; o and the log-sum-exp are computed outside.
    """
    q, k, v = _grouped(batch, heads, kv_heads, seq_len, seq_len if kv_len is None else kv_len, head_dim, device)
    do = _output_gradient(batch, heads, seq_len, head_dim, device, seed=2)
    scale = 1 / math.sqrt(head_dim)
    o, lse = portable_forward(q, k, v, causal=causal, scale=scale)
    return _backward(
        lambda: attention_backward(q, k, v, o, lse, do, causal=causal, scale=scale)[0],
        lambda: attention_backward_reference(q, *_expand_groups(q, k, v), do, causal=causal)[0],
        "portable_backward", (q, k, v, o, lse, do),
    )  # fmt: skip


def _grouped(
    batch: int, heads: int, kv_heads: int, seq_len: int, kv_len: int, head_dim: int, device: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random fp16 q, k and v.

    q is [batch, heads, seq_len, head_dim], k and v [batch, kv_heads, kv_len, head_dim].
    """
    q, _, _ = attention_inputs(batch, heads, seq_len, 1, head_dim, dtype=torch.float16, device=device)
    _, k, v = attention_inputs(batch, kv_heads, 1, kv_len, head_dim, dtype=torch.float16, device=device, seed=1)
    return q, k, v


def _expand_groups(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return k and v with each key head repeated for each query head that uses it."""
    group = q.shape[1] // k.shape[1]
    return k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)


def _forward(name: str, backend: BackendName, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Work:
    """Return the work of attention by that backend, checked against float64."""
    return Work(
        lambda: attention(q, k, v, causal=causal, backend=backend),
        inputs=(q, k, v),
        reference=lambda: attention_reference(q, *_expand_groups(q, k, v), causal=causal),
        tolerance=tolerance(name, q.dtype),
    )


def _output_gradient(batch: int, heads: int, seq_len: int, head_dim: int, device: str, *, seed: int) -> torch.Tensor:
    """Return a random fp16 gradient of the output, [batch, heads, seq_len, head_dim]."""
    do, _, _ = attention_inputs(batch, heads, seq_len, 1, head_dim, dtype=torch.float16, device=device, seed=seed)
    return do


def _backward(
    run: Callable[[], object],
    reference: Callable[[], torch.Tensor | tuple[torch.Tensor, ...]],
    name: str,
    inputs: tuple[torch.Tensor, ...],
) -> Work:
    """Return the work of computing gradients.

    The tolerance is twice that of a forward pass.
    """
    return Work(run, inputs=inputs, reference=reference, tolerance=2 * tolerance(name, inputs[0].dtype))
