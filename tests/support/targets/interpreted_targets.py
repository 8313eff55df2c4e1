"""Host functions whose kernels only Triton's interpreter runs."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

FACTOR = 2.0


@triton.jit
def global_kernel(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n) * FACTOR, lanes < n)


@triton.jit
def add_kernel(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n) + 1, lanes < n)


@triton.jit
def staged_product(a, b, out, SIZE: tl.constexpr, STAGES: tl.constexpr):
    lanes = tl.arange(0, SIZE)
    sums = tl.zeros((SIZE, SIZE), tl.float32)
    for start in tl.range(0, STAGES * SIZE, SIZE, num_stages=STAGES):
        left = tl.load(a + lanes[:, None] * STAGES * SIZE + start + lanes[None, :])
        sums = tl.dot(left, tl.load(b + (start + lanes)[:, None] * SIZE + lanes[None, :]), sums)
    tl.store(out + lanes[:, None] * SIZE + lanes[None, :], sums)


def compiled_nowhere(n: int = 100):
    """The kernel reads a global number that is no constexpr."""
    x = torch.ones(n, device="cuda")
    out = torch.empty_like(x)
    for _ in range(2):
        global_kernel[(triton.cdiv(n, 64),)](x, out, n, BLOCK=64)


def too_much_shared_memory(size: int = 128):
    """Four stages of two tiles of 32 KiB do not fit."""
    a, b = torch.ones(size, 4 * size, device="cuda").half(), torch.ones(4 * size, size, device="cuda").half()
    staged_product[(1,)](a, b, torch.empty(size, size, device="cuda"), SIZE=size, STAGES=4, num_warps=8)


def unknown_option(n: int = 100):
    """The launch has an option of AMD GPUs."""
    x = torch.ones(n, device="cuda")
    add_kernel[(triton.cdiv(n, 64),)](x, torch.empty_like(x), n, BLOCK=64, matrix_instr_nonkdim=16)
