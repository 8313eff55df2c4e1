"""A kernel whose registers are too few for the tile that it holds."""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl


@triton.jit
def hold(x, out, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Keep a tile while its columns are added up."""
    at = tl.arange(0, ROWS)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    tile = tl.load(x + at)
    tl.store(out + at, tile / tl.sum(tl.exp(tile), axis=0)[None, :] * tl.sum(tile, axis=1)[:, None])


@triton.autotune([triton.Config({"BLOCK": block}, num_warps=4) for block in (256, 1024)], key=[])
@triton.jit
def copy(x, out, N: tl.constexpr, BLOCK: tl.constexpr):
    """Copy a block of adjacent elements."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < N), mask=at < N)


def tuned_beside_spilling(rows: int = 64, cols: int = 128) -> Callable[[], None]:
    """Return launches of an autotuned kernel and of one that spills."""
    x = torch.empty(rows, cols, device="cuda")
    out = torch.empty_like(x)

    def work() -> None:
        copy[lambda meta: (triton.cdiv(rows * cols, meta["BLOCK"]),)](x, out, N=rows * cols)
        hold[(1,)](x, out, ROWS=rows, BLOCK=cols, num_warps=1)

    return work


def spilling(rows: int = 64, cols: int = 128) -> Callable[[], object]:
    """Return a launch whose threads have 32 registers."""
    x = torch.empty(rows, cols, device="cuda")
    out = torch.empty_like(x)
    return lambda: hold[(1,)](x, out, ROWS=rows, BLOCK=cols, num_warps=1, maxnreg=32)
