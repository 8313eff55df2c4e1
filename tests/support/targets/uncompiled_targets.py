"""Host functions whose module needs nothing of torch.compile when it is imported."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n) * 2, lanes < n)


def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


def plain(n: int = 100):
    return doubled(torch.tensor([1.0, 2.0, 3.0], device="cuda").repeat(n) * 0.5)


def asks_for_it(n: int = 100):
    """Asks torch.compile's package for one of its settings, and for something else."""
    assert not torch._dynamo.config.suppress_errors
    return torch._dynamo.disable(doubled)(torch.ones(n, device="cuda"))
