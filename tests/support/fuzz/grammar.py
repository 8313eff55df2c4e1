"""Random Triton programs: modules with kernels and a host function.

Each is the source text of a module.

The same seed gives the same text. Sizes are small, so that a program can be run and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.support.fuzz.composed_idioms import HELPERS as COMPOSED
from tests.support.fuzz.kernels import Kernel
from tests.support.fuzz.library_idioms import HELPERS

HEAD = """import torch
import triton
import triton.language as tl

"""


def program(seed: int, *, data: bool = False, small: bool = False, library: bool = False) -> str:
    """Return the text of a module with kernels and `host(n, m, k, device)`.

    `host(n, m, k, device)` launches them. `library` adds what kernels of libraries use beside loops and masks.
    """
    rng = Random(seed)
    kernels = [Kernel(rng, f"kernel{at}", data=data, small=small, library=library) for at in range(rng.choice((1, 1, 1, 1, 2)))]
    return (
        HEAD
        + "\n\n".join([*_helpers(library=library), *(_kernel(rng, kernel) for kernel in kernels), _host(rng, kernels)])
        + "\n"
    )


def _helpers(*, library: bool) -> list[str]:
    text = """@triton.jit
def first(a, b, B: tl.constexpr):
    if a > b:
        return a - b
    return tl.cdiv(a, B)


@triton.jit
def total(x, at, end, B: tl.constexpr):
    lanes = at + tl.arange(0, B)
    return tl.sum(tl.load(x + lanes, mask=lanes < end).to(tl.float32))


@triton.jit
def digits(a, B: tl.constexpr):
    return a // B, a % B


@triton.jit(noinline=True)
def put(x, at, low, high):
    for i in range(low, high):
        tl.store(x + at + i * 3, 1.0)
"""
    return [text, HELPERS, COMPOSED] if library else [text]


def _kernel(rng: Random, kernel: Kernel) -> str:
    idx = _integers(kernel)
    return (
        f"@triton.jit\ndef {kernel.name}(x, y, out, {idx}n, m, k, s, B: tl.constexpr, C: tl.constexpr):\n"
        + "\n".join(kernel.lines)
        + "\n"
    )


def _integers(kernel: Kernel) -> str:
    """Return the arguments of a kernel that are tensors of integers."""
    return ("idx, " if kernel.data else "") + ("lock, " if kernel.library else "")


DTYPES = ("float32", "float32", "float16", "float64", "bfloat16", "int8", "float8_e4m3fn")


def _host(rng: Random, kernels: Sequence[Kernel]) -> str:
    """Return a host function with tensors, views with an offset, and launches.

    There is one launch for each kernel.
    """
    lines = ["def host(n: int = 37, m: int = 11, k: int = 5, device: str = 'cuda'):"]
    for name in ("x", "y"):
        dtype = rng.choice(DTYPES)
        size = rng.choice(("4096", "64 * n", "n * m + 128", "n + m + k"))
        view = rng.choice(("", "", "", "[1:]", "[8:]", "[k:]", "[m * 8:]", "[16 * n:]"))
        lines.append(f"    {name} = torch.empty({size} + 16 * n + 8 * m + k, device=device, dtype=torch.{dtype}){view}")
    lines.append(f"    z = torch.empty(n + 64, m * {rng.choice((1, 2, 8))} + {rng.choice((0, 3, 8))}, device=device)")
    if rng.random() < 0.4:
        lines.append(f"    x = z{rng.choice(('', '[:, 1:]', '[k:]', '.t()', '[2:, m // 2:]'))}")
    lines.append("    out = torch.empty(64 * n * m, device=device)")
    if any(kernel.data for kernel in kernels):
        lines.append("    idx = torch.empty(64 * n * m, device=device, dtype=torch.int32)")
    if any(kernel.library for kernel in kernels):
        lines.append("    lock = torch.empty(64 * n * m + 4096, device=device, dtype=torch.int32)")
    for kernel in kernels:
        block, c = rng.choice((8, 16, 16, 32)), rng.choice((2, 3, 4, 8))
        if rng.random() < 0.3:
            lines.append("    grid = lambda meta: " + _grid(rng, kernel.axes, "meta['B']", "meta['C']"))
        else:
            lines.append("    grid = " + _grid(rng, kernel.axes, str(block), str(c)))
        idx = _integers(kernel)
        stride = "z.stride(0)" if "s" in kernel.scope.names else "1"
        lines.append(f"    {kernel.name}[grid](x, y, out, {idx}n, m, k, {stride}, B={block}, C={c})")
    lines.append("    return out")
    return "\n".join(lines) + "\n"


def _grid(rng: Random, axes: int, block: str, c: str) -> str:
    first = (
        "n",
        f"triton.cdiv(n, {block})",
        f"triton.cdiv(n, {c})",
        "4",
        "n + 1",
        "m",
        "k * 2",
        f"triton.cdiv(n, {block}) * m",
        "min(n, 6)",
        f"triton.cdiv(n, {block}) * triton.cdiv(m, {c})",
    )
    other = ("m", "k", f"triton.cdiv(m, {c})", "2", "3", "max(k, 3)")
    return "(" + "".join(f"{rng.choice(first if axis == 0 else other)}, " for axis in range(axes)) + ")"
