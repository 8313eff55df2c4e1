"""Targets of attention over several GPUs, for `ioaware derive --gpus P`.

Each rank allocates its part of a sequence. The work is one pass of `context_parallel` over all ranks of the default group.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
import torch.distributed as dist

from ioaware.kernels.attention.distributed.context_parallel import Method, context_parallel
from ioaware.kernels.attention.distributed.sharding import shard_length


def forward(
    batch: int = 1,
    heads: int = 32,
    kv_heads: int = 8,
    seq_len: int = 131072,
    kv_len: int | None = None,
    head_dim: int = 128,
    dtype: str = "bfloat16",
    causal: bool = False,
    method: str = "ring",
    rows: int | None = None,
    device: str = "cuda",
) -> Callable[[], torch.Tensor]:
    """Return the forward pass on q [batch, heads, seq_len, head_dim] over all ranks.

    method is one of `context_parallel`; rows those of the grid of "square", unless given of the squarest.
    """
    work, _ = _parts(batch, heads, kv_heads, seq_len, kv_len, head_dim, dtype, causal, method, rows, device)

    def run() -> torch.Tensor:
        with torch.no_grad():
            return work()

    return run


def backward(
    batch: int = 1,
    heads: int = 32,
    kv_heads: int = 8,
    seq_len: int = 131072,
    kv_len: int | None = None,
    head_dim: int = 128,
    dtype: str = "bfloat16",
    causal: bool = False,
    method: str = "ring",
    rows: int | None = None,
    device: str = "cuda",
) -> Callable[[], tuple[torch.Tensor, ...]]:
    """Return both passes, with gradients of q, k and v; parameters as in `forward`."""
    work, leaves = _parts(batch, heads, kv_heads, seq_len, kv_len, head_dim, dtype, causal, method, rows, device)

    def run() -> tuple[torch.Tensor, ...]:
        o = work()
        return torch.autograd.grad(o, leaves, torch.empty_like(o))

    return run


def _parts(
    batch: int, heads: int, kv_heads: int, seq_len: int, kv_len: int | None, head_dim: int, dtype: str,
    causal: bool, method: str, rows: int | None, device: str,
) -> tuple[Callable[[], torch.Tensor], tuple[torch.Tensor, ...]]:  # fmt: skip
    """Return the forward pass of this rank, and its parts of q, k and v."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    keys = seq_len if kv_len is None else kv_len
    lengths = [shard_length(length, ranks, rank) for length in (seq_len, keys, keys)]
    shapes = [(batch, number, length, head_dim) for number, length in zip((heads, kv_heads, kv_heads), lengths, strict=True)]
    q, k, v = (torch.empty(shape, dtype=getattr(torch, dtype), device=device, requires_grad=True) for shape in shapes)
    grid = None if rows is None else (rows, ranks // rows)
    return partial(context_parallel, q, k, v, method=cast("Method", method), causal=causal, grid=grid), (q, k, v)
