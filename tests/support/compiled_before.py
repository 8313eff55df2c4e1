"""Kernels for a file of GPU tests compiled before them, in many processes at once, into Triton's cache on disk.

Triton compiles one kernel after another, a few seconds each; a file of tests wants some hundred of them.
"""

# torch's autograd has no types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import torch

from ioaware.kernels.attention.dispatch import BackendName, attention


class Call(NamedTuple):
    """A forward and a backward pass, by all that decides which kernels they launch."""

    backend: BackendName
    deterministic: bool
    dtype: torch.dtype
    causal: bool
    batch: int
    heads: int
    kv_heads: int
    seq_len: int
    kv_len: int
    head_dim: int
    heads_last: bool


def compile_before(calls: Iterable[Call]) -> None:
    """Compiles what these calls need, in at most 12 processes. A call that fails fails again in its test, where it is told."""
    asked = sorted(set(calls), key=lambda call: (call.head_dim, call.backend, call.deterministic))
    context = multiprocessing.get_context("spawn")  # a forked process cannot use the parent's CUDA context
    with ProcessPoolExecutor(min(12, os.cpu_count() or 1), mp_context=context) as pool:
        for future in [pool.submit(make, call) for call in asked]:
            future.exception()


def make(call: Call) -> None:
    """Run one such call on random inputs."""

    def drawn(heads: int, rows: int) -> torch.Tensor:
        shape = (call.batch, heads, rows, call.head_dim)
        if not call.heads_last:
            return torch.randn(shape, device="cuda", dtype=call.dtype)
        return torch.randn((shape[0], rows, heads, shape[3]), device="cuda", dtype=call.dtype).transpose(1, 2)

    q, do = drawn(call.heads, call.seq_len), drawn(call.heads, call.seq_len)
    leaves = [x.requires_grad_() for x in (q, drawn(call.kv_heads, call.kv_len), drawn(call.kv_heads, call.kv_len))]
    output = attention(*leaves, call.causal, backend=call.backend, deterministic=call.deterministic)
    torch.autograd.grad(output, leaves, do)
