"""An autograd function whose backward pass launches a kernel of its own."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def square_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < n)
    tl.store(out + at, value * value, at < n)


@triton.jit
def square_gradient_kernel(x, of_out, of_x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value, gradient = tl.load(x + at, at < n), tl.load(of_out + at, at < n)
    tl.store(of_x + at, 2 * value * gradient, at < n)


def square(x: Any) -> Any:
    out = torch.empty_like(x)
    square_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


def square_gradient(x: Any, of_out: Any) -> Any:
    of_x = torch.empty_like(x)
    square_gradient_kernel[(triton.cdiv(x.numel(), 256),)](x, of_out, of_x, x.numel(), BLOCK=256)
    return of_x


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return square(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return square_gradient(*ctx.saved_tensors, *gradients)
