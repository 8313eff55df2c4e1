"""Reduced random programs for which derive was wrong.

Each is a kernel and its host function.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl

REGRESSIONS: list[Callable[..., object]] = []


@triton.jit
def empty_rows_kernel(x, n, m):
    rows, columns = tl.arange(0, 8)[:, None], tl.program_id(0) + tl.arange(0, 16)[None, :]
    tl.store(x + rows * m + columns, 1.0, mask=(rows < n) & (columns < m))


@REGRESSIONS.append
def empty_rows(n: int = 37, m: int = 11, k: int = 5, device: str = "cuda"):
    """Tiles that lie wholly beyond the last column.

    Rows without lanes share no sectors.
    """
    empty_rows_kernel[(k,)](torch.empty(4096, device=device), n, m)


@triton.jit
def counted_up_kernel(x, out, k):
    at = tl.program_id(0)
    acc = 0.0
    while at < k:
        acc += tl.load(x + at)
        at += 3
    tl.store(out + tl.program_id(0), acc)


@REGRESSIONS.append
def counted_up(n: int = 37, m: int = 11, k: int = 5, device: str = "cuda"):
    """A while loop over a view with any offset.

    Its trip count is not a length of whole sectors.
    """
    x, out = torch.empty(2, 4096, device=device), torch.empty(4096, device=device)
    counted_up_kernel[(m,)](x[1][k:], out, n)


@triton.jit
def overlapping_kernel(x, k):
    rows, columns = tl.arange(0, 4)[:, None], (tl.program_id(0) * 4 + tl.arange(0, 8))[None, :]
    tl.store(x + rows + columns, 1.0, mask=columns < k)


@REGRESSIONS.append
def overlapping(n: int = 37, m: int = 11, k: int = 5, device: str = "cuda"):
    """A sum over min(8, k - 4 pid) lanes, which may be negative.

    So it is not that many times one term.
    """
    overlapping_kernel[(n,)](torch.empty(4096, device=device, dtype=torch.float16)[k:], k)


@triton.jit
def decided_case_kernel(x, n, m):
    lanes = tl.arange(0, 8)
    tl.store(x + lanes, 1.0, mask=lanes == tl.where(m < 0, 9, n))


@REGRESSIONS.append
def decided_case(n: int = 37, m: int = 11, k: int = 5, device: str = "cuda"):
    """A choice that the sign of a parameter decides when the formula is written."""
    decided_case_kernel[(k,)](torch.empty(4096, device=device), n, m)


@triton.jit
def from_elsewhere_kernel(x):
    start = tl.program_id(0)
    for i in range(1, 3):
        for j in range(start, i):
            tl.store(x + j, 1.0)
        start = 1


@REGRESSIONS.append
def from_elsewhere(n: int = 37, m: int = 11, k: int = 5, device: str = "cuda"):
    """[pid, 1) and [1, 2) are not [pid, 2) where pid is beyond 1."""
    from_elsewhere_kernel[(n,)](torch.empty(4096, device=device))


@triton.jit
def bits_kernel(x, n, m):
    pid, lanes = tl.program_id(0) - 3, tl.arange(0, 8)
    for i in range(tl.abs(pid - m) & 6):
        tl.store(x + i * 8 + lanes, 1.0, mask=lanes < (pid ^ 5))
    for i in range((pid & -4) | 3):
        tl.store(x + (pid * 40).to(tl.int8).to(tl.int32) + i, 1.0, mask=(pid * 40).to(tl.int8) < 50)
    for i in range(pid.to(tl.uint32).to(tl.int64) & 11):
        tl.store(x + i * 8 + lanes, 1.0, mask=(lanes | 2) < n)


@REGRESSIONS.append
def bits(n: int = 37, m: int = 11, k: int = 5, device: str = "cuda"):
    """Bitwise operations on possibly negative numbers.

    There are casts that drop or add bits.
    """
    bits_kernel[(n,)](torch.empty(4096, device=device), k, m)


@triton.jit
def sliding_kernel(x, n, m):
    across, lanes = 0, tl.arange(0, 8)
    for i in range(-m, m):
        tl.store(x + i * 8 + lanes, 1.0, mask=(across + lanes >= 0) & (across + lanes < n))
        across += i


@REGRESSIONS.append
def sliding(n: int = 37, m: int = 11, k: int = 5, device: str = "cuda"):
    """A sum of indices carried around a loop.

    There are halves of squares, and their maximum with 0.
    """
    sliding_kernel[(k,)](torch.empty(4096, device=device), n, m)
