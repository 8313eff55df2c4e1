"""Host functions that use autocast or set torch's defaults.

They copy the result with one kernel.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch.utils.checkpoint import checkpoint


@triton.jit
def copy_kernel(source, target, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(target + at, tl.load(source + at, mask=at < n), mask=at < n)


def copy(x: Any) -> Any:
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), block=256)
    return out


class Copy(torch.autograd.Function):
    """A copy in half precision, which autocast does not change."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float16)
    def forward(ctx: Any, x: Any) -> Any:  # noqa: ARG004
        assert not torch.is_autocast_enabled("cuda")
        return copy(x)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, grad: Any) -> Any:  # noqa: ARG004
        assert not torch.is_autocast_enabled("cuda")
        return copy(grad)


class Square(torch.autograd.Function):
    """A product in the region's dtype, forward and backward."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return copy(x @ x)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, grad: Any) -> Any:
        assert torch.is_autocast_enabled("cuda")
        return copy(grad @ ctx.saved_tensors[0])


def product(n: int = 64) -> Any:
    """Copy a product: 2 bytes an element."""
    x = torch.ones(n, n, device="cuda")
    with torch.autocast("cuda"):
        return copy(x @ x)


def outside(n: int = 64) -> Any:
    """Copy a product computed after the end of the region: 4 bytes an element."""
    x = torch.ones(n, n, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16), torch.autocast("cuda", enabled=False):
        y = x @ x
    return copy(y + x @ x)


def custom_function(n: int = 64) -> Any:
    """Four copies: half precision, the region's dtype, and a product.

    Half precision is copied forward and backward, the region's dtype forward, a product backward.
    """
    x = torch.ones(n, n, device="cuda", requires_grad=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        y, z = Copy.apply(x), Square.apply(x)
    (y.float().sum() + z.float().sum()).backward()
    return x.grad


def checkpointed(n: int = 64) -> Any:
    """A copy recomputed in the backward pass, with the dtypes of the forward pass."""
    x = torch.ones(n, n, device="cuda", requires_grad=True)
    with torch.autocast("cuda"):
        y = checkpoint(lambda t: (t @ t) * copy(t @ t).detach(), x, use_reentrant=False)
    y.float().sum().backward()
    return x.grad


def set_and_left(n: int = 64) -> Any:
    """Set defaults and leave them set. The next run must not have them."""
    x = torch.ones(n, n, device="cuda")
    torch.set_default_dtype(torch.float16)
    torch.set_default_device("cuda")
    torch.set_autocast_enabled(True)
    torch.backends.cuda.matmul.allow_tf32 = True
    assert torch.get_default_device().type == "cuda"
    return copy(x)
