"""Host functions whose launches depend on parameters.

They do so in ways that one formula does not follow.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def rows_kernel(x, columns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    row = x + tl.program_id(0) * columns
    tl.store(row + lanes, tl.load(row + lanes, lanes < columns) + 1, lanes < columns)


@triton.jit
def share_kernel(x, rows, SHARE: tl.constexpr):
    for at in range(SHARE):
        row = tl.program_id(0) * SHARE + at
        if row < rows:
            tl.store(x + row, 1.0)


@triton.jit
def flat_kernel(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + lanes, 1.0, None if EVEN else lanes < n)


def frozen_block(rows: int = 20, columns: int = 100, device: str = "cuda"):
    """A block that is a power of two of a parameter, and never smaller than it."""
    x = torch.zeros(rows, columns, device=device)
    rows_kernel[(rows,)](x, columns, BLOCK=triton.next_power_of_2(columns))


def short_block(rows: int = 20, columns: int = 100, device: str = "cuda"):
    """As in Liger: rows longer than the longest block are truncated."""
    x = torch.zeros(rows, columns, device=device)
    rows_kernel[(rows,)](x, columns, BLOCK=min(1 << (columns - 1).bit_length(), 256))


def frozen_share(rows: int = 160, device: str = "cuda"):
    """Rows divided among a fixed number of programs."""
    x = torch.zeros(rows, device=device)
    share_kernel[(132,)](x, rows, SHARE=triton.cdiv(rows, 132))


def branching(n: int = 100, device: str = "cuda"):
    """Another block above a threshold."""
    x = torch.zeros(n, device=device)
    block = 64 if n < 4096 else 1024
    flat_kernel[(triton.cdiv(n, block),)](x, n, BLOCK=block, EVEN=False)


def branching_grid(n: int = 100, device: str = "cuda"):
    """No work for the larger half of the sizes."""
    x = torch.zeros(n, device=device)
    flat_kernel[(7 if n >= 100 else 1,)](x, n, BLOCK=16, EVEN=False)


def even(n: int = 256, device: str = "cuda"):
    """No mask where the blocks divide."""
    x = torch.zeros(n, device=device)
    flat_kernel[(triton.cdiv(n, 64),)](x, n, BLOCK=64, EVEN=n % 64 == 0)


def broadcast(n: int = 100, m: int = 100, device: str = "cuda"):
    """torch decides: sizes are equal, or one of them is 1."""
    x = torch.zeros(n, device=device) + torch.zeros(m, device=device)
    flat_kernel[(triton.cdiv(x.numel(), 64),)](x, x.numel(), BLOCK=64, EVEN=False)


def stretched(n: int = 50, m: int = 80, device: str = "cuda"):
    """A size of 1 is broadcast without a branch in the host code."""
    x = torch.zeros(m, 1, device=device) + torch.zeros(1, n, device=device)
    if x.is_contiguous():
        flat_kernel[(triton.cdiv(n, 64),)](x, n, BLOCK=64, EVEN=False)


def transposed(n: int = 50, m: int = 80, device: str = "cuda"):
    """Only a transposed matrix of one row or column is contiguous, and launches."""
    x = torch.zeros(n, m, device=device).T
    flat_kernel[(1,)](x, 10, BLOCK=64, EVEN=False)
    if x.is_contiguous():
        flat_kernel[(1,)](x, 20, BLOCK=64, EVEN=False)


def lengths(n: int = 100, device: str = "cuda"):
    """A length read from data that differs with n."""
    total = torch.full((4,), n, device=device).sum().item()
    x = torch.zeros(n, device=device)
    flat_kernel[(triton.cdiv(total, 64),)](x, n, BLOCK=64, EVEN=False)


def constant_length(n: int = 100, device: str = "cuda"):
    """A length read from data that is the same for every n."""
    total = int(torch.ones(4, device=device).sum().item())
    x = torch.zeros(n, device=device)
    for _ in range(total):
        flat_kernel[(triton.cdiv(n, 64),)](x, n, BLOCK=64, EVEN=False)
