"""Host functions whose module uses nothing of torch.compile at import."""

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


def uses_dynamo(n: int = 100):
    """Read a setting of torch._dynamo, and call one of its functions."""
    assert not torch._dynamo.config.suppress_errors
    return torch._dynamo.disable(doubled)(torch.ones(n, device="cuda"))
