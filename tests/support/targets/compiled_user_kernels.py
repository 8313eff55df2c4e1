"""Functions of torch.compile that launch Triton kernels of their own.

Each kernel has one element of each tensor to read and to write.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

SIZE = 100


@triton.jit
def scale_kernel(x, BLOCK: tl.constexpr, out, other, step, n, DOUBLED: tl.constexpr):
    """An argument that is None, one that is 1, and constants before and after them."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + lane * step, lane < n)
    if other is not None:
        value += tl.load(other + lane, lane < n)
    tl.store(out + lane, value * 2 if DOUBLED else value, lane < n)


@triton.autotune(configs=[triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def tuned_kernel(x, out, n, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lane, tl.load(x + lane, lane < n), lane < n)


def scale(x: Any) -> Any:
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 64),)](x, 64, out, None, 1, x.numel(), DOUBLED=True, num_warps=8)
    return out


def tuned(x: Any) -> Any:
    out = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out


@torch.library.triton_op("ioaware_tests::scale", mutates_args={})
def scale_operator(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    wrapped: Any = torch.library.wrap_triton(scale_kernel)
    wrapped[(triton.cdiv(x.numel(), 64),)](x, 64, out, None, 1, x.numel(), DOUBLED=True, num_warps=8)
    return out


def between(function: Any, n: int, **options: Any) -> Any:
    """Return the call of a compiled function: a kernel between two pointwise ones."""
    compiled = torch.compile(lambda x: function(x * 2) + 1, **options)
    x = torch.randn(n, device="cuda")
    return lambda: compiled(x)


def scaled(n: int = SIZE) -> Any:
    return between(scale, n)


def scaled_at_any_size(n: int = SIZE) -> Any:
    return between(scale, n, dynamic=True)


def tuned_at_any_size(n: int = SIZE) -> Any:
    return between(tuned, n, dynamic=True)


def scaled_by_operator(n: int = SIZE) -> Any:
    return between(scale_operator, n)
