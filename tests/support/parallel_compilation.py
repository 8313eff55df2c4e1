"""Parallel compilation of the kernels of a GPU test file into Triton's disk cache.

Why: a test file needs a hundred kernels, and Triton compiles them one by one, a few seconds each.
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
    """Parameters of a forward and a backward pass.

    They decide which kernels the passes launch.
    """

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


def compile_in_parallel(calls: Iterable[Call]) -> None:
    """Compile the kernels of these calls in at most 12 processes.

    Errors are ignored here: the call fails again in its own test.
    """
    ordered = sorted(set(calls), key=lambda call: (call.head_dim, call.backend, call.deterministic))
    context = multiprocessing.get_context("spawn")  # a forked process cannot use the parent's CUDA context
    with ProcessPoolExecutor(min(12, os.cpu_count() or 1), mp_context=context) as pool:
        for future in [pool.submit(run_call, call) for call in ordered]:
            future.exception()


def run_call(call: Call) -> None:
    """Run one such call on random inputs."""

    def random_tensor(heads: int, rows: int) -> torch.Tensor:
        shape = (call.batch, heads, rows, call.head_dim)
        if not call.heads_last:
            return torch.randn(shape, device="cuda", dtype=call.dtype)
        return torch.randn((shape[0], rows, heads, shape[3]), device="cuda", dtype=call.dtype).transpose(1, 2)

    q, do = random_tensor(call.heads, call.seq_len), random_tensor(call.heads, call.seq_len)
    leaves = [
        x.requires_grad_() for x in (q, random_tensor(call.kv_heads, call.kv_len), random_tensor(call.kv_heads, call.kv_len))
    ]
    output = attention(*leaves, call.causal, backend=call.backend, deterministic=call.deterministic)
    torch.autograd.grad(output, leaves, do)
