"""Kernels that go through scratch space in shared memory, as folds over warps do."""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportArgumentType=false, reportGeneralTypeIssues=false
from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def row_sums_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x_ptr + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(row, 0))


def row_sums(rows: int = 64, n: int = 1000):
    """One number a row, of four warps."""
    x, out = torch.empty(rows, n, device="cuda"), torch.empty(rows, device="cuda")
    row_sums_kernel[(rows,)](x, out, n, BLOCK=triton.next_power_of_2(n))


@triton.jit
def both_axes_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    x = tl.load(x_ptr + at)
    across, index = tl.max(x, 1, return_indices=True)
    down, above = tl.max(x, 0, return_indices=True)
    tl.store(out_ptr + at, across[:, None] + index[:, None] + down[None, :] + above[None, :])


def both_axes(rows: int = 64, columns: int = 32):
    """Maximum and its index along both axes.

    The warps lie along the rows, so that only one axis crosses warps.
    """
    x, out = (torch.empty(rows, columns, device="cuda") for _ in range(2))
    both_axes_kernel[(1,)](x, out, ROWS=rows, COLUMNS=columns)


@triton.jit
def scratch_kernel(x_ptr, index_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    picked = tl.gather(x, tl.load(index_ptr + at), 0)
    before = tl.atomic_add(index_ptr, 1)
    tl.store(out_ptr + at, picked + tl.cumsum(x, 0) + before)
    tl.store(index_ptr + tl.arange(0, 32), tl.histogram(tl.load(index_ptr + at), 32))


def scratch(n: int = 1024):
    """A gather, a scan, an atomic whose result all threads use, and a histogram."""
    x, out = (torch.empty(n, device="cuda") for _ in range(2))
    scratch_kernel[(1,)](x, torch.empty(n, device="cuda", dtype=torch.int32), out, N=n)


@triton.jit
def tma_copy_kernel(source, target, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    target.store([at, 0], source.load([at, 0]))


def tma_copy(rows: int = 256):
    """Tiles of 64 rows of 32 numbers, loaded and stored by TMA."""
    x, out = (torch.empty(rows, 32, device="cuda") for _ in range(2))
    tiles = [TensorDescriptor.from_tensor(one, [64, 32]) for one in (x, out)]
    tma_copy_kernel[(rows // 64,)](*tiles, BLOCK=64)
