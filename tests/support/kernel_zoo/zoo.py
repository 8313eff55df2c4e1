"""The kernel zoo: small kernels, one access pattern each.

Host functions are as in user code.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language import load as plain_load

DEVICE = triton.runtime.driver.active.get_active_torch_device()


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x: torch.Tensor, y: torch.Tensor, block: int = 64) -> torch.Tensor:
    assert x.is_cuda
    assert x.device == DEVICE
    out = torch.empty_like(x)
    n = out.numel()
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=block, num_warps=4)
    return out


def masked_add(n: int = 1000, block: int = 64, device: str = "cuda"):
    x, y = torch.rand(n, device=DEVICE), torch.rand(n, device=device)
    return lambda: add(x, y, block)


def all_work(n: int = 100):
    x = torch.rand(n, device="cuda")
    return add(x, x)


@triton.jit
def strided_kernel(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets * stride, mask=offsets < n, other=0.0), mask=offsets < n)


def strided(n: int = 100, stride: int = 3):
    x = torch.rand(n * stride, device="cuda", dtype=torch.float16)[::stride]
    out = torch.empty(n, device="cuda", dtype=torch.float16)
    return lambda: (strided_kernel[(triton.cdiv(n, 32),)](x, out, n, x.stride(0), BLOCK=32), out)[1]


@triton.jit
def transpose_kernel(x_ptr, out_ptr, rows, columns, R: tl.constexpr, C: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    column = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    inside = (row < rows) & (column < columns)
    tile = tl.load(x_ptr + row * columns + column, mask=inside)
    tl.store(out_ptr + column * rows + row, tile, mask=inside)


def transpose(rows: int = 50, columns: int = 37, tile: int = 16):
    x = torch.rand(rows, columns, device="cuda")
    out = torch.empty(columns, rows, device="cuda")
    grid = (triton.cdiv(rows, tile), triton.cdiv(columns, tile))
    return lambda: (transpose_kernel[grid](x, out, rows, columns, R=tile, C=tile), out)[1]


@triton.jit
def scalar_kernel(x_ptr, scale_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    scaled = tl.load(x_ptr + tl.program_id(0) * BLOCK + lanes) * tl.load(scale_ptr)
    tl.store(out_ptr + tl.program_id(0) + lanes * 0, scaled, mask=lanes == 0)


def scalar(programs: int = 5):
    x, scale = torch.rand(programs * 16, device="cuda"), torch.full((1,), 2.0, device="cuda")
    out = torch.empty(programs, device="cuda")
    return lambda: (scalar_kernel[(programs,)](x, scale, out, BLOCK=16), out)[1]


@triton.jit
def same_address_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes // 8))


def same_address():
    x, out = torch.rand(64, device="cuda"), torch.empty(64, device="cuda")
    return lambda: (same_address_kernel[(1,)](x, out, BLOCK=64), out)[1]


@triton.jit
def histogram_kernel(x_ptr, bins_ptr, top_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.atomic_add(bins_ptr + values, 1, mask=offsets < n)
    tl.atomic_max(top_ptr, tl.max(values, axis=0))
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.atomic_xchg(lock_ptr, 0)


def histogram(n: int = 100):
    x = torch.randint(0, 10, (n,), device="cuda", dtype=torch.int32)
    bins, top, lock = (torch.zeros(size, device="cuda", dtype=torch.int32) for size in (10, 1, 1))

    def run():
        histogram_kernel[(triton.cdiv(n, 32),)](x, bins, top, lock, n, BLOCK=32)
        return bins

    return run


if hasattr(tl, "atomic_load"):  # Triton 3.9

    @triton.jit
    def signals_kernel(flags_ptr, n, BLOCK: tl.constexpr):
        lanes = tl.arange(0, BLOCK)
        flags = tl.atomic_load(flags_ptr + lanes, mask=lanes < n)
        tl.atomic_store(flags_ptr + lanes, flags + 1, mask=lanes < n)
        tl.atomic_poll(flags_ptr, 1)

    def signals():
        flags = torch.zeros(16, device="cuda", dtype=torch.int32)
        return lambda: (signals_kernel[(1,)](flags, 16, BLOCK=32), flags)[1]


@triton.jit
def block_pointer_kernel(x_ptr, out_ptr, rows, columns, TILE: tl.constexpr):
    source = tl.make_block_ptr(x_ptr, (rows, columns), (columns, 1), (0, 0), (TILE, TILE), (1, 0))
    target = tl.make_block_ptr(out_ptr, (rows, columns), (columns, 1), (0, 0), (TILE, TILE), (1, 0))
    for _ in range(0, rows, TILE):
        tl.store(target, tl.load(source, boundary_check=(0, 1), padding_option="zero"), boundary_check=(0, 1))
        source = tl.advance(source, (TILE, 0))
        target = tl.advance(target, (TILE, 0))


def block_pointer(rows: int = 50, columns: int = 13):
    x, out = torch.rand(rows, columns, device="cuda"), torch.empty(rows, columns, device="cuda")
    return lambda: (block_pointer_kernel[(1,)](x, out, rows, columns, TILE=16), out)[1]


@triton.jit
def descriptor_kernel(x_ptr, out_ptr, rows, columns, TILE: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=[TILE, TILE])
    target = tl.make_tensor_descriptor(out_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=[TILE, TILE])
    start = tl.program_id(0) * TILE
    tile = source.load([start, 0])
    target.store([start, 0], tile)
    target.atomic_add([start, 0], tile)


def descriptor(rows: int = 40, columns: int = 12):
    x, out = torch.rand(rows, columns, device="cuda"), torch.empty(rows, columns, device="cuda")
    return lambda: (descriptor_kernel[(triton.cdiv(rows, 16),)](x, out, rows, columns, TILE=16), out)[1]


@triton.jit
def host_descriptor_kernel(source, target, indices_ptr, ROWS: tl.constexpr, TILE: tl.constexpr):
    rows = tl.load(indices_ptr + tl.arange(0, ROWS))
    target.scatter(source.gather(rows, 0), rows, 0)


def host_descriptor():
    from triton.tools.tensor_descriptor import TensorDescriptor

    x, out = torch.rand(64, 16, device="cuda"), torch.zeros(64, 16, device="cuda")
    indices = torch.arange(0, 64, 8, device="cuda", dtype=torch.int32)

    def run():
        source, target = (TensorDescriptor.from_tensor(tensor, [1, 16]) for tensor in (x, out))
        host_descriptor_kernel[(1,)](source, target, indices, ROWS=8, TILE=16)
        return out

    return run


@triton.jit
def gather_kernel(table_ptr, index_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    row = plain_load(index_ptr + tl.program_id(0))
    offsets = tl.arange(0, BLOCK)
    tl.store(
        out_ptr + tl.program_id(0) * width + offsets,
        tl.load(table_ptr + row * width + offsets, mask=offsets < width),
        mask=offsets < width,
    )


def gather(n: int = 7, width: int = 10):
    table = torch.rand(20, width, device="cuda", dtype=torch.float64)
    index = torch.tensor([3, 3, 0, 19, 7, 3, 1], device="cuda")[:n]
    out = torch.empty(n, width, device="cuda", dtype=torch.float64)
    return lambda: (gather_kernel[(n,)](table, index, out, n, width, BLOCK=16), out)[1]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        return add(x, x)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        out = torch.empty(gradient.shape, device="cuda")
        gradient = gradient.contiguous()
        add_kernel[(triton.cdiv(out.numel(), 32),)](gradient, gradient, out, out.numel(), BLOCK=32)
        return out


def forward_and_backward(n: int = 100):
    x = torch.rand(n, device="cuda", requires_grad=True)

    def run():
        Doubled.apply(x).backward(torch.ones(n, device="cuda"))
        return x.grad

    return run


def torch_between(n: int = 64):
    generator = torch.Generator(device="cuda").manual_seed(7)
    x = torch.randn(n, generator=generator, device="cuda").cuda().to("cuda:0", non_blocking=True)

    def run():
        once = add(x, x)
        shifted = once.view(8, -1).t()[:, 1:].reshape(-1) + 1.0
        once.mul_(2.0)
        return add(shifted, shifted), once

    return run


def half_written(n: int = 64):
    """Leaves the last block unwritten, and checks its output."""
    from ioaware.case import Work

    x = torch.rand(n, device="cuda")

    def run():
        out = torch.empty_like(x)
        add_kernel[(n // 32 - 1,)](x, x, out, n, BLOCK=32)
        return out

    return Work(run, inputs=(x,), reference=lambda: 2 * x.double(), tolerance=1e-6)


def enclosing(width: int = 32):
    """A kernel that closes over a constant of the enclosing function."""
    shift = tl.constexpr(width)

    @triton.jit
    def closure_kernel(x_ptr, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        tl.store(x_ptr + shift + offsets, tl.load(x_ptr + offsets))

    x = torch.rand(2 * width, device="cuda")
    return lambda: (closure_kernel[(1,)](x, BLOCK=width), x)[1]


def launches_nothing():
    return torch.ones(3, device="cuda") + 1


def raises(n: int = 3):
    add_kernel[(1,)](torch.rand(n, device="cuda"), None, torch.rand(n, device="cuda"), n, BLOCK=16)


def times_itself():
    start = torch.cuda.Event(enable_timing=True)
    start.record()
    return lambda: start.elapsed_time(start)


def exits():
    raise SystemExit("no arguments given")


def required(
    n: int,
    name: str,
    factor: float = 0.5,
    flip: bool = False,
    dtype: torch.dtype = torch.float16,
    shape: tuple = (1, 2),
    limit: int | None = None,
    anything=None,
):
    return n, name, factor, flip, dtype, shape, limit, anything


def positional(n, /):
    return n
