"""Kernels with grids or loops sized in unusual ways.

They are sized by processors, registers, loaded lengths or an autotuner.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.runtime import driver

DEVICE = triton.runtime.driver.active.get_active_torch_device()


@triton.jit
def _normalised(row, BLOCK: tl.constexpr):
    powers = tl.exp(row - row.max(axis=0))
    return powers / tl.sum(powers, axis=0)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        values = tl.load(x_ptr + row * columns + offsets, mask=mask, other=-float("inf"))
        tl.store(out_ptr + row * columns + offsets, _normalised(values, BLOCK), mask=mask)


def softmax(rows: int = 20, columns: int = 30):
    """Persistent programs, as many as the device properties give."""
    x = torch.randn(rows, columns, device=DEVICE)
    properties = triton.runtime.driver.active.utils.get_device_properties(DEVICE.index)
    programs = min(properties["multiprocessor_count"], torch.cuda.get_device_properties(x.device).multi_processor_count, rows)

    def run():
        out = torch.empty_like(x)
        with torch.cuda.device(x.device.index):
            softmax_kernel[(programs, 1, 1)](x, out, rows, columns, BLOCK=triton.next_power_of_2(columns))
        torch.cuda.synchronize()
        return out

    return run


def occupied(rows: int = 20, columns: int = 30):
    """Size the grid by the registers of a warm-up, and launch the warm-up's kernel."""
    x = torch.randn(rows, columns, device=DEVICE)
    properties = driver.active.utils.get_device_properties(DEVICE.index)

    def run():
        out = torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        warmed = softmax_kernel.warmup(x, out, rows, columns, BLOCK=block, num_warps=4, enable_fp_fusion=True, grid=(1,))
        warmed._init_handles()
        resident = properties["max_num_regs"] // (warmed.n_regs * properties["warpSize"] * 4)
        resident = min(resident, properties["max_shared_mem"] // max(1, warmed.metadata.shared))
        warmed[(min(rows, resident, 7), 1, 1)](x, out, rows, columns, block)
        return out

    return run


@triton.jit
def _running(a, b):
    return a * 2 + b


@triton.jit
def scan_kernel(x_ptr, out_ptr, limit_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in range(tl.cdiv(tl.load(limit_ptr), BLOCK)):
        total += tl.load(x_ptr + step * BLOCK + offsets)
    tl.store(out_ptr + offsets, tl.associative_scan(total, 0, _running))


def scan(steps: int = 3):
    """A loop bound read from memory, and a user-defined combine function."""
    x = torch.rand(steps * 8, device="cuda")
    limit = torch.full((1,), steps * 8, device="cuda", dtype=torch.int32)
    out = torch.empty(8, device="cuda")
    return lambda: (scan_kernel[(1,)](x, out, limit, BLOCK=8), out)[1]


@triton.autotune(
    configs=[triton.Config({"BLOCK": 32}, num_warps=2), triton.Config({"BLOCK": 128}, num_warps=4)],
    key=["n"],
    reset_to_zero=["out_ptr"],
)
@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["BLOCK"] == 0})
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))
    else:
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


def tuned(n: int = 100):
    x, out = torch.rand(n, device="cuda"), torch.empty(n, device="cuda")
    return lambda: (tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n), out)[1]
