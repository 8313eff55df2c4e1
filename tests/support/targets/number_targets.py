"""Host functions that convert, round and compare sizes as Python code does."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, y, n, factor, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + lanes, tl.load(x + lanes, lanes < n) * factor, lanes < n)


def scaled(x: torch.Tensor, factor: float = 2.0, block: int = 128) -> torch.Tensor:
    y = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), factor, BLOCK=block)
    return y


def rounded_twice(n: int = 98, device: str = "cuda"):
    """n at 98 and n - 1 at 99: the quotient is a little below."""
    return scaled(torch.ones(math.floor(n / 49 * 49), device=device))


def branch_on_a_product_of_floats(n: int = 98, device: str = "cuda"):
    """Equal at 98, not at 99."""
    return scaled(torch.ones(2 * n if n / 49 * 49 == n else n, device=device))


def branch_below_a_product_of_floats(n: int = 98, device: str = "cuda"):
    """Not below at 98, below at 99."""
    return scaled(torch.ones(2 * n if n / 49 * 49 < n else n, device=device))


def rounded_once(n: int = 98, device: str = "cuda"):
    """Floats that round as fractions do."""
    return scaled(torch.ones(math.floor(n / 49) + math.ceil(n * 1.5) + math.floor(-n / 4 * 3 + 3 * n), device=device))
