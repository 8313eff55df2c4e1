"""Targets for measurements on a GPU.

They are kernels with known bytes, and works that are wrong or crash.
"""

import os
import time

import torch
import triton
import triton.language as tl

from ioaware.case import Work

BLOCK = 1024


@triton.jit
def copy_kernel(source, target, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + offsets, tl.load(source + offsets, mask=offsets < n), mask=offsets < n)


@triton.autotune([triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 2048})], key=["n"])
@triton.jit
def tuned_kernel(source, target, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + offsets, tl.load(source + offsets, mask=offsets < n), mask=offsets < n)


def _copy(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    copy_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK=BLOCK)
    return out


def copies(n: int = 2**26, device: str = "cuda") -> Work:
    """Two copies by Triton with torch's softmax between them.

    There is an intermediate buffer of n elements.
    """
    x = torch.randn(n, device=device, dtype=torch.float16)

    def run() -> torch.Tensor:
        between = _copy(x, torch.empty_like(x))
        torch.softmax(between.view(1024, -1), 1)
        return _copy(between, torch.empty_like(x))

    return Work(run, inputs=(x,), reference=lambda: x.double(), tolerance=0.0)


def tuned(n: int = 2**24, device: str = "cuda") -> Work:
    x = torch.randn(n, device=device, dtype=torch.float32)

    def run() -> torch.Tensor:
        out = torch.empty_like(x)
        tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
        return out

    return Work(run, inputs=(x,), reference=lambda: x.double(), tolerance=0.0)


def unwritten(n: int = 2**20, device: str = "cuda") -> Work:
    """The first block is never written."""
    x = torch.randn(n, device=device, dtype=torch.float16)

    def run() -> torch.Tensor:
        out = torch.empty_like(x)
        copy_kernel[(triton.cdiv(n, BLOCK) - 1,)](x[BLOCK:], out[BLOCK:], n - BLOCK, BLOCK=BLOCK)
        return out

    return Work(run, inputs=(x,), reference=lambda: x.double(), tolerance=1e-3)


def in_place(n: int = 2**20, device: str = "cuda") -> Work:
    x = torch.randn(n, device=device)
    return Work(lambda: x.mul_(0.5), inputs=(x,))


def out_of_memory(device: str = "cuda") -> Work:
    return Work(lambda: torch.empty(2**45, device=device, dtype=torch.uint8))


def illegal_address(n: int = 2**20, device: str = "cuda") -> Work:
    """Accesses reach 2 TB beyond the tensor."""
    x = torch.randn(n, device=device, dtype=torch.float16)

    def run() -> torch.Tensor:
        copy_kernel[(2**30,)](x, x, 2**60, BLOCK=BLOCK)
        torch.cuda.synchronize()
        return x

    return Work(run)


def hangs(device: str = "cuda") -> Work:
    return Work(lambda: time.sleep(600))


def exits(device: str = "cuda") -> Work:
    return Work(lambda: os._exit(0))
