"""Kernels to walk.

They have a while loop, a call, atomics, strides, a transposed view and a ragged end.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def doubled(x):
    twice = x + x
    return twice + 0


@triton.jit
def while_kernel(X, Y, total, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    start = 0
    while start < n:
        x = tl.load(X + start + lanes, mask=start + lanes < n, other=0.0)
        y = doubled(x)
        tl.store(Y + start + lanes, y, mask=start + lanes < n)
        tl.atomic_add(total, tl.sum(x, 0))
        start += BLOCK


def while_loop(n: int = 6, *, device: str = "cuda") -> Any:
    """Double a vector in a while loop of four elements, and sum it by atomics."""
    x, total = torch.arange(n, dtype=torch.float32, device=device), torch.zeros(1, device=device)
    y = torch.empty_like(x)

    def run() -> torch.Tensor:
        while_kernel[(1,)](x, y, total, n, BLOCK=4)
        return y

    return run


@triton.jit
def transpose_kernel(X, Y, stride_row, stride_col, every, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows, cols = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
    x = tl.load(X + rows * stride_row + cols * stride_col * every)
    tl.store(Y + rows * COLS + cols, x)


def transposed(every: int = 1, *, device: str = "cuda") -> Any:
    """Copy a transposed 4 x 4 view, or every second column of a view.

    The latter is the view of a transposed 8 x 4 tensor.
    """
    x = torch.arange(16.0 * every, device=device).reshape(4 * every, 4).T
    y = torch.empty((4, 4), device=device)

    def run() -> torch.Tensor:
        transpose_kernel[(1,)](x, y, *x.stride(), every, ROWS=4, COLS=4)
        return y

    return run
