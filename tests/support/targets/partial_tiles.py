"""Tiles with a nonzero start and any end, and a counter that the host reads."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def rows_kernel(x, out, first, last, R: tl.constexpr, C: tl.constexpr):
    rows, columns = tl.arange(0, R), tl.arange(0, C)
    places = rows[:, None] * C + columns[None, :]
    mask = ((rows >= first) & (rows < last))[:, None] & (columns >= 0)[None, :]
    tl.store(out + places, tl.load(x + places, mask), mask)


def rows(first: int = 3, last: int = 7, columns: int = 16):
    """Rows from `first` on, in a tile of contiguous rows."""
    x = torch.randn(8, columns, device="cuda")
    out = torch.empty_like(x)
    return lambda: rows_kernel[(1,)](x, out, first, last, R=8, C=columns)


@triton.jit
def columns_kernel(x, out, first, last, R: tl.constexpr, C: tl.constexpr):
    rows, columns = tl.arange(0, R), tl.arange(0, C)
    places = rows[:, None] * C + columns[None, :]
    mask = (rows >= 0)[:, None] & ((columns >= first) & (columns < last))[None, :]
    tl.store(out + places, tl.load(x + places, mask), mask)


def columns(first: int = 3, last: int = 15, width: int = 16):
    """Columns from `first` on of every row."""
    x = torch.randn(8, width, device="cuda")
    out = torch.empty_like(x)
    return lambda: columns_kernel[(1,)](x, out, first, last, R=8, C=width)


@triton.jit
def columns_from_kernel(x, out, first, R: tl.constexpr, C: tl.constexpr):
    rows, columns = tl.arange(0, R), tl.arange(0, C)
    places = rows[:, None] * C + columns[None, :]
    mask = (rows >= 0)[:, None] & (columns >= first)[None, :]
    tl.store(out + places, tl.load(x + places, mask), mask)


def columns_from(first: int = 3, width: int = 16):
    """Columns from `first` to the end of every row."""
    x = torch.randn(8, width, device="cuda")
    out = torch.empty_like(x)
    return lambda: columns_from_kernel[(1,)](x, out, first, R=8, C=width)


@triton.jit
def line_kernel(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n), lanes < n)


def line(n: int = 100, dtype: torch.dtype = torch.float16):
    """A mask of length n."""
    x = torch.ones(n, device="cuda", dtype=dtype)
    out = torch.empty_like(x)
    return lambda: line_kernel[(triton.cdiv(n, 256),)](x, out, n, BLOCK=256)


def overlapping(n: int = 128):
    """All of a tensor, and its first half again."""
    x = torch.ones(n, device="cuda")
    whole, half = torch.empty_like(x), torch.empty(n // 2, device="cuda")

    def work():
        line_kernel[(triton.cdiv(n, 256),)](x, whole, n, BLOCK=256)
        line_kernel[(triton.cdiv(n // 2, 256),)](x[: n // 2], half, n // 2, BLOCK=256)
        return whole, half

    return work


@triton.jit
def count_kernel(x, counter, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    found = tl.sum((tl.load(x + lanes, lanes < n, other=0.0) > 0).to(tl.int32), 0)
    tl.atomic_add(counter, found)


def counted(n: int = 100):
    """The host launches again if a kernel counted something.

    The kernel counts by an atomic only.
    """
    x = torch.ones(n, device="cuda")
    counter = torch.zeros(1, device="cuda", dtype=torch.int32)
    count_kernel[(1,)](x, counter, n, BLOCK=128)
    if int(counter.item()) > 0:
        count_kernel[(1,)](x, counter, n, BLOCK=128)
