"""Check the arguments of attention kernels before anything is launched."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ioaware.errors import UsageError

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
HEAD_DIMS = range(1, 257)
GRID_AXIS = 65535
"""Longest second and third axis of a CUDA grid; heads and batch are on these axes."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of one attention, with its softmax scale."""

    batch: int
    heads: int
    seq_len: int
    kv_len: int
    head_dim: int
    scale: float


def check_attention(
    kernel: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float | None, block_m: int, block_n: int
) -> Shape:
    """Return the sizes of q, k and v.

    q is [batch, heads, seq_len, head_dim]; k and v are [batch, heads, kv_len, head_dim].

    Raises UsageError for tensors that no attention kernel takes.
    """
    layout = "Give q as [batch, heads, seq_len, head_dim], k and v as [batch, heads, kv_len, head_dim]."
    if not q.dim() == k.dim() == v.dim() == 4:
        raise UsageError(f"{kernel}: attention takes tensors of four dimensions, not {_shapes(q, k, v)}", layout)
    if k.shape != v.shape or q.shape[:2] != k.shape[:2] or q.shape[3] != k.shape[3]:
        raise UsageError(f"{kernel}: the shapes do not match, {_shapes(q, k, v)}", layout)
    if any(size < 1 for size in (*q.shape, *k.shape)):
        raise UsageError(f"{kernel}: an empty dimension in {_shapes(q, k, v)}", "Every dimension must be at least 1.")
    batch, heads, seq_len, head_dim = q.shape
    if not HEAD_DIMS[0] <= head_dim <= HEAD_DIMS[-1]:
        raise UsageError(
            f"{kernel}: head_dim {head_dim} is not supported, only {HEAD_DIMS[0]} to {HEAD_DIMS[-1]}",
            "Split or pad the heads.",
        )
    if batch > GRID_AXIS or heads > GRID_AXIS:
        raise UsageError(f"{kernel}: batch {batch}, heads {heads}, and a CUDA grid takes {GRID_AXIS} each", "Split the batch.")
    if not q.dtype == k.dtype == v.dtype or q.dtype not in DTYPES:
        raise UsageError(
            f"{kernel}: dtypes q {_name(q.dtype)}, k {_name(k.dtype)}, v {_name(v.dtype)} cannot work together",
            f"Give all three as one of {', '.join(map(_name, DTYPES))}.",
        )
    if not q.device == k.device == v.device or q.device.type not in ("cuda", "cpu"):
        raise UsageError(
            f"{kernel}: devices q {q.device}, k {k.device}, v {v.device} cannot work",
            "Put all three on one CUDA device (or on the CPU under Triton's interpreter).",
        )
    for name, block in (("block_m", block_m), ("block_n", block_n)):
        if isinstance(block, (bool, float)) or not 1 <= block <= 1024:
            raise UsageError(
                f"{kernel}: {name}={block!r} cannot work, a block has 1 to 1024 rows", f"Give {name} such a number."
            )
    if scale is not None and not math.isfinite(scale):
        raise UsageError(f"{kernel}: scale={scale!r} is not a finite number", "Leave it out for 1/sqrt(head_dim).")
    return Shape(batch, heads, seq_len, k.shape[2], head_dim, 1 / math.sqrt(head_dim) if scale is None else float(scale))


def _shapes(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> str:
    return ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in (("q", q), ("k", k), ("v", v)))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
