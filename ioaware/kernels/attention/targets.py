"""Targets that are no case: `ioaware derive ioaware.kernels.attention.targets:hopper -p seq_len=4096`, and measure likewise."""

from __future__ import annotations

import math

import torch

from ioaware.case import Work
from ioaware.kernels.attention.attention import attention
from ioaware.kernels.attention.hopper import hopper_forward
from ioaware.kernels.attention.hopper_gradients import hopper_backward as gradients
from ioaware.kernels.attention.inputs import attention_inputs
from ioaware.kernels.attention.portable_backward import attention_backward
from ioaware.kernels.attention.reference import attention_backward_reference, attention_reference
from ioaware.kernels.attention.work import tolerance


def hopper(
    batch: int = 1, heads: int = 16, seq_len: int = 4096, head_dim: int = 128, causal: bool = False, device: str = "cuda"
) -> Work:
    """The Hopper forward kernel on random fp16 inputs [batch, heads, seq_len, head_dim], checked against float64."""
    q, k, v = attention_inputs(batch, heads, seq_len, seq_len, head_dim, dtype=torch.float16, device=device)
    return Work(
        lambda: attention(q, k, v, causal=causal, backend="hopper"),
        inputs=(q, k, v),
        reference=lambda: attention_reference(q, k, v, causal=causal),
        tolerance=tolerance("hopper", q.dtype),
    )


def hopper_backward(
    batch: int = 1,
    heads: int = 16,
    seq_len: int = 4096,
    head_dim: int = 128,
    causal: bool = False,
    deterministic: bool = False,
    device: str = "cuda",
) -> Work:
    """The Hopper backward kernels on random fp16 inputs [batch, heads, seq_len, head_dim]: (dq, dk, dv) of an output and a
    log-sum-exp that were computed outside, checked against float64."""
    q, k, v = attention_inputs(batch, heads, seq_len, seq_len, head_dim, dtype=torch.float16, device=device)
    do, _, _ = attention_inputs(batch, heads, seq_len, 1, head_dim, dtype=torch.float16, device=device, seed=1)
    scale = 1 / math.sqrt(head_dim)
    o, lse = hopper_forward(q, k, v, causal=causal, scale=scale)
    return Work(
        lambda: gradients(q, k, v, o, lse, do, causal=causal, scale=scale, deterministic=deterministic),
        inputs=(q, k, v, o, lse, do),
        reference=lambda: attention_backward_reference(q, k, v, do, causal=causal),
        tolerance=2 * tolerance("hopper", q.dtype),
    )


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
    """Decode on random fp16 inputs, q [batch, heads, seq_len, head_dim], k and v [batch, kv_heads, kv_len, head_dim]."""
    q, _, _ = attention_inputs(batch, heads, seq_len, 1, head_dim, dtype=torch.float16, device=device)
    _, k, v = attention_inputs(batch, kv_heads, 1, kv_len, head_dim, dtype=torch.float16, device=device, seed=1)
    group = heads // kv_heads
    return Work(
        lambda: attention(q, k, v, causal=causal, backend="decode"),
        inputs=(q, k, v),
        reference=lambda: attention_reference(q, _shared(k, group), _shared(v, group), causal=causal),
        tolerance=tolerance("decode", q.dtype),
    )


def _shared(x: torch.Tensor, group: int) -> torch.Tensor:
    """Each key head once for each query head that uses it."""
    return x.repeat_interleave(group, 1)


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
    """The portable forward kernel on random fp16 inputs, kv_len as long as seq_len unless given."""
    keys = seq_len if kv_len is None else kv_len
    q, _, _ = attention_inputs(batch, heads, seq_len, 1, head_dim, dtype=torch.float16, device=device)
    _, k, v = attention_inputs(batch, kv_heads, 1, keys, head_dim, dtype=torch.float16, device=device, seed=1)
    group = heads // kv_heads
    return Work(
        lambda: attention(q, k, v, causal=causal, backend="triton"),
        inputs=(q, k, v),
        reference=lambda: attention_reference(q, _shared(k, group), _shared(v, group), causal=causal),
        tolerance=tolerance("portable", q.dtype),
    )


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
    """The portable backward kernels on random fp16 inputs, kv_len as long as seq_len unless given: returns dQ."""
    keys = seq_len if kv_len is None else kv_len
    q, _, _ = attention_inputs(batch, heads, seq_len, 1, head_dim, dtype=torch.float16, device=device)
    _, k, v = attention_inputs(batch, kv_heads, 1, keys, head_dim, dtype=torch.float16, device=device, seed=1)
    o, do, _ = attention_inputs(batch, heads, seq_len, seq_len, head_dim, dtype=torch.float16, device=device, seed=2)
    lse = torch.full((batch, heads, seq_len), 6.0, device=device)  # any will do: dS is linear in exp(-L)
    scale = head_dim**-0.5

    def reference() -> torch.Tensor:
        dq = torch.empty(q.shape, dtype=torch.float64, device=q.device)
        seen = torch.ones((seq_len, keys), dtype=torch.bool, device=q.device)
        seen = seen.tril(keys - seq_len) if causal else seen
        for b in range(batch):
            for h in range(heads):
                at, kv = (b, h), (b, h // (heads // kv_heads))
                p = torch.exp(q[at].double() @ k[kv].double().mT * scale - 6.0) * seen
                delta = (o[at].double() * do[at].double()).sum(1, keepdim=True)
                dq[at] = p * (do[at].double() @ v[kv].double().mT - delta) @ k[kv].double() * scale
        return dq

    return Work(
        lambda: attention_backward(q, k, v, o, lse, do, causal=causal, scale=scale)[0],
        inputs=(q, k, v, o, lse, do),
        reference=reference,
        tolerance=tolerance("portable_backward", q.dtype),
    )
