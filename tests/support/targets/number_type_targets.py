"""Host functions of a module that needs `int`, and `float` in a kernel."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def clamp_kernel(x, y, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    largest = tl.maximum(tl.load(x + lanes, lanes < n, other=float("-inf")), 0.0)
    tl.store(y + lanes, largest, lanes < n)


def of_integers(n: int = 1000, device: str = "cuda"):
    """A size that `int` specialises here."""
    x = torch.zeros(int(n), dtype=int, device=device)
    y = torch.empty_like(x, dtype=torch.float32)
    clamp_kernel[(triton.cdiv(n, 128),)](x.to(float), y, n, BLOCK=128)
    return y
