"""Host functions for `derive`, one idiom of host code each.

They are loaded as a user's file.
"""

from __future__ import annotations

import numpy
import torch
import triton
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def scale_kernel(x, out, n, factor, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n) * factor, lanes < n)


def scale(x: torch.Tensor, factor: float, block: int = 64) -> torch.Tensor:
    out = torch.empty_like(x)
    scale_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel(), factor, BLOCK=block)
    return out


def flat(rows: int = 7, columns: int = 30, dtype: torch.dtype = torch.float16):
    """Sizes from views, a grid from a lambda, a factor from a root."""
    x = torch.randn((columns, rows), device="cuda", dtype=dtype).T.contiguous()
    return lambda: scale(x.view(-1), rows**-0.5)


def one_launch_each(n: int = 100, times: int = 3, block: int = 64):
    """A loop of the host over launches."""
    x = torch.ones(n, device="cuda")
    for _ in range(times):
        x = scale(x, 2.0, block)
    return x


def rounded_up(rows: int = 20, columns: int = 100):
    """A block from a power of two, options from the block."""
    x = torch.randn(rows, columns, device="cuda")
    block = triton.next_power_of_2(columns)
    rows_kernel[(rows,)](x, x, columns, BLOCK=block, num_warps=4 if block < 2048 else 8)
    return x


@triton.jit
def rows_kernel(x, out, columns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    tl.store(out + row + lanes, tl.load(x + row + lanes, lanes < columns) + 1, lanes < columns)


def branching(n: int = 100, mode: int = 2):
    """Branches on parameters: one specialises, one only adds a condition."""
    x = torch.ones(n, device="cuda")
    if mode == 2:
        x = scale(x, 3.0)
    return scale(x, 2.0, 64 if n < 4096 else 1024)


def integers_only(n: int = 100, block: int = 32):
    """Accepts plain integers only."""
    if type(block) is not int:
        raise TypeError(f"block={block!r} is no int")
    return scale(torch.ones(n, device="cuda"), 1.0, block)


def singular(batch: int = 1, n: int = 100):
    """A batch of one, which broadcasting treats as a special case."""
    x = torch.ones((batch, n), device="cuda")
    scale(x, 1.0)
    if batch == 1:
        scale(x, 1.0)


class Squarer(torch.autograd.Function):
    """A kernel in each direction, with a torch operator between."""

    @staticmethod
    def forward(context, x: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(x)
        return scale(x, 2.0)

    @staticmethod
    def backward(context, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = context.saved_tensors
        return scale(gradient * x, 2.0)


def forward_and_backward(n: int = 100):
    x = torch.randn(n, device="cuda", requires_grad=True)
    gradient = torch.randn_like(x, dtype=torch.float16).float()

    def run() -> torch.Tensor | None:
        Squarer.apply(x).backward(gradient)
        return x.grad

    return run


@triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 128}, num_warps=8)], key=["n"])
@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def tuned_kernel(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + lanes) if EVEN else tl.load(x + lanes, lanes < n)
    tl.store(out + lanes, values, lanes < n)


class Layer:
    """A kernel called from a class."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        assert x.device == torch.device("cuda", torch.cuda.current_device())
        out = torch.zeros_like(x)
        tuned_kernel[lambda meta: (triton.cdiv(x.shape[0], meta["BLOCK"]),)](x, out, x.shape[0])
        return out


def tuned(n: int = 256):
    x = torch.ones(n, device="cuda", dtype=torch.bfloat16)
    return lambda: Layer()(x)


@triton.jit
def tiles_kernel(source, target, TILE: tl.constexpr):
    at = [tl.program_id(0) * TILE, tl.program_id(1) * TILE]
    target.store(at, source.load(at))


def described(rows: int = 40, columns: int = 24):
    """Tensor descriptors made by the host."""
    x = torch.ones((rows, columns), device="cuda")
    y = torch.empty_like(x)
    source, target = (TensorDescriptor.from_tensor(tensor, [16, 16]) for tensor in (x, y))
    tiles_kernel[(triton.cdiv(rows, 16), triton.cdiv(columns, 16))](source, target, TILE=16)
    return y


@triton.jit
def pair_kernel(pair, sizes, out, none, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    values = tl.load(pair[0] + lanes, lanes < sizes[0]) + tl.load(pair[1] + lanes, lanes < sizes[1])
    if none is not None:
        values += tl.load(none + lanes)
    tl.store(out + lanes, values)


def paired(n: int = 10, m: int = 12):
    """Tuples of tensors and of numbers, and None."""
    x, y, out = (torch.ones(size, device="cuda") for size in (n, m, 16))
    pair_kernel[(1,)]((x, y), (n, m), out, None, BLOCK=16)
    return out


def local(n: int = 100):
    """A kernel defined anew in each call."""

    @triton.jit
    def negative_kernel(x, n, BLOCK: tl.constexpr):
        lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + lanes, -tl.load(x + lanes, lanes < n), lanes < n)

    x = torch.ones(n, device="cuda")
    negative_kernel[(triton.cdiv(n, 64),)](x, n, BLOCK=64)
    return x


def occupied(rows: int = 60000, columns: int = 100):
    """A grid sized by the compiled kernel's registers.

    It is launched through the compiled kernel.
    """
    x = torch.ones((rows, columns), device="cuda")
    compiled = rows_kernel.warmup(x, x, columns, BLOCK=128, grid=(1,))
    compiled._init_handles()
    programs = torch.cuda.get_device_properties("cuda").multi_processor_count * (65536 // (compiled.n_regs * 128))
    compiled[(min(rows, programs), 1, 1)](x, x, columns, 128)
    return x


def warmed_up_by_types(n: int = 100):
    """A kernel compiled for types of tensors before it is launched."""
    scale_kernel.warmup(torch.float32, torch.float32, n, 1.0, BLOCK=64, grid=(1,))
    return scale(torch.ones(n, device="cuda"), 1.0)


def offset(n: int = 100, skip: int = 3):
    """A tensor that starts in the middle of its storage."""
    return scale(torch.ones(n, device="cuda")[skip:], 1.0)


def half(n: int = 100):
    """Reads only half of its input."""
    x = torch.ones(2 * n, device="cuda")
    out = torch.empty(n, device="cuda")
    scale_kernel[(triton.cdiv(n, 64),)](x, out, n, 1.0, BLOCK=64)
    return out


def branches_on_data(n: int = 8):
    """A branch on the contents of a tensor."""
    x = torch.ones(n, device="cuda")
    return scale(x, 1.0) if x.sum().item() > 3 else scale(x, 2.0)


@triton.jit
def broken_kernel(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), undefined)  # noqa: F821


def broken(n: int = 16):
    broken_kernel[(1,)](torch.ones(n, device="cuda"), BLOCK=16)


def misspelt(n: int = 16):
    x = torch.ones(n, device="cuda")
    scale_kernel[(1,)](x, x, n, 1.0, BLOCK=16, BLOK=16)


def incomplete(n: int = 16):
    scale_kernel[(1,)](torch.ones(n, device="cuda"), n, BLOCK=16)


def interpreted(n: int = 16):
    """What `triton.jit` returns under TRITON_INTERPRET=1."""
    x = torch.ones(n, device="cuda")
    InterpretedFunction(scale_kernel.fn)[(1,)](x, x, n, 1.0, BLOCK=16)


def idle(n: int = 16):
    return torch.ones(n, device="cuda")


def reads_lengths(n: int = 100):
    """Lengths in an index tensor decide the launches."""
    lengths = torch.arange(1, 4, device="cuda") * 10
    longest = int(lengths.max())
    x = torch.ones(n, device="cuda")
    if torch.equal(lengths, torch.tensor([10, 20, 30], device="cuda")):
        x = scale(x, 1.0, 32)
    for length in lengths.tolist():
        scale(x[:length], 1.0)
    return scale(x, float(longest))


def branches_on_a_kernels_output(n: int = 100):
    """A branch on a number that a kernel computed."""
    x = scale(torch.ones(n, device="cuda"), 2.0)
    return scale(x, 1.0) if (x + 1).sum().item() > 3 else x


@triton.jit
def persistent_kernel(x, out, rows, columns, SMS: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """Tiles of the matrix in groups of rows.

    Their order is that of persistent matrix products.
    """
    high, wide = tl.cdiv(rows, BLOCK), tl.cdiv(columns, BLOCK)
    for tile in tl.range(tl.program_id(0), high * wide, SMS):
        first = tile // (GROUP * wide) * GROUP
        height = min(high - first, GROUP)
        i = (first + tile % height) * BLOCK + tl.arange(0, BLOCK)
        j = tile % (GROUP * wide) // height * BLOCK + tl.arange(0, BLOCK)
        inside = (i < rows)[:, None] & (j < columns)[None, :]
        at = i[:, None] * columns + j[None, :]
        tl.store(out + at, tl.load(x + at, inside) * 2, inside)


def persistent(rows: int = 40, columns: int = 100, sms: int = 5, block: int = 16):
    """A grid of as many programs as processors, or as tiles if those are fewer."""
    x = torch.randn(rows, columns, device="cuda")
    grid = (min(sms, triton.cdiv(rows, block) * triton.cdiv(columns, block)),)
    persistent_kernel[grid](x, x, rows, columns, SMS=sms, GROUP=3, BLOCK=block)
    return x


def shares(rows: int = 40, columns: int = 100, programs: int = 6):
    """Every program has the same number of rows, the last ones the remainder."""
    x = torch.randn(rows, columns, device="cuda")
    shares_kernel[(max(1, programs),)](x, rows, columns, triton.cdiv(rows, programs), BLOCK=128)
    return x


@triton.jit
def shares_kernel(x, rows, columns, each, BLOCK: tl.constexpr):
    start = tl.program_id(0) * each
    lanes = tl.arange(0, BLOCK)
    for row in range(start, min(start + each, rows)):
        tl.store(x + row * columns + lanes, tl.load(x + row * columns + lanes, lanes < columns), lanes < columns)


@torch.library.triton_op("ioaware_tests::scaled", mutates_args=())
def scaled_operator(x: torch.Tensor, factor: float) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = x.numel()
    torch.library.wrap_triton(scale_kernel)[(triton.cdiv(n, 64),)](x, out, n, factor, BLOCK=64)
    return out


class Scaler(torch.autograd.Function):
    """A custom operator in each direction.

    Its shape function reads the device of its operand.
    """

    @staticmethod
    def forward(context, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        return scaled_operator(x, 2.0)

    @staticmethod
    def backward(context, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        return scaled_operator(gradient, 2.0)


def custom_operator(n: int = 100):
    x = torch.randn(n, device="cuda", requires_grad=True)

    def work():
        y = Scaler.apply(x)
        return torch.autograd.grad(y, x, torch.ones_like(y))

    return work


def takes_numpy(n: int = 16):
    """A kernel argument that is no tensor."""
    scale_kernel[(1,)](numpy.zeros(n), torch.ones(n, device="cuda"), n, 1.0, BLOCK=16)


def negative(n: int = -4):
    return scale(torch.ones(n, device="cuda"), 1.0)


def enormous(n: int = 10**20):
    return scale(torch.ones(n, device="cuda"), 1.0)


def leaves(n: int = 16):
    raise SystemExit(n)


def yields(n: int = 16):
    yield scale(torch.ones(n, device="cuda"), 1.0)


async def awaits(n: int = 16):
    return scale(torch.ones(n, device="cuda"), 1.0)


@triton.jit
def wild_kernel(x, BLOCK: tl.constexpr, WRITES: tl.constexpr):
    far = x + tl.arange(0, BLOCK).to(tl.int64) * 2**40
    if WRITES:
        tl.store(far, 1.0)
    else:
        tl.store(x, tl.sum(tl.load(far)))


def wild_write(n: int = 16):
    """An address outside all memory, where the process would end by a signal."""
    wild_kernel[(1,)](torch.zeros(n, device="cuda"), 16, True)


def wild_read(n: int = 16):
    wild_kernel[(1,)](torch.zeros(n, device="cuda"), 16, False)


@triton.jit
def wild_atomic_kernel(x, BLOCK: tl.constexpr):
    tl.atomic_add(x + tl.arange(0, BLOCK).to(tl.int64) * 2**40, 1.0)


def wild_atomic(n: int = 16):
    wild_atomic_kernel[(1,)](torch.zeros(n, device="cuda"), 16)


@triton.jit
def labelled_kernel(labels, x, out, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    if tl.load(labels + row) != 3:
        values = tl.load(x + row * BLOCK + lanes)
        tl.store(out + row * BLOCK + lanes, values)
    while tl.atomic_cas(labels + row, 7, 8) == 7:
        pass


def labelled(rows: int = 40):
    """Rows skipped by loaded labels, and spin locks."""
    labels = torch.zeros(rows, device="cuda", dtype=torch.int32)
    x = torch.ones(rows, 64, device="cuda")
    out = torch.empty_like(x)
    labelled_kernel[(rows,)](labels, x, out, BLOCK=64)
    return scale(out, 2.0)


@triton.jit
def strided_kernel(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    every_eighth = tl.load(x + 8 * lanes, lanes < n)
    tl.store(out + lanes, every_eighth, lanes < n)


def strided(n: int = 512):
    """A load that uses four bytes of each sector."""
    x, out = torch.ones(8 * n, device="cuda"), torch.empty(n, device="cuda")
    return lambda: strided_kernel[(triton.cdiv(n, 64),)](x, out, n, BLOCK=64)


def summed_by_torch(n: int = 100):
    """The kernel's output is no result of the function."""
    return scale(torch.ones(n, device="cuda"), 2.0).sum()


def in_place(n: int = 100):
    """The function returns nothing."""
    x = torch.ones(n, device="cuda")
    scale_kernel[(triton.cdiv(n, 64),)](x, x, n, 2.0, BLOCK=64)
