"""What one captured launch requests: its IR, its arguments and its grid, given to the engine that turns them into formulas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import cast

from sympy import Expr
from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir import Argument, Descriptor, KernelTraffic, Pointer, Scalar, analyse
from ioaware.instruments.captured import CapturedLaunch, DescriptorValue, TensorValue, Value
from ioaware.instruments.compile import first_ir


def kernel_traffic(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> KernelTraffic:
    """The traffic of one captured launch; the same launch again comes from memory."""
    ir = first_ir(launch, values, gpu)
    return _analysed(ir.text, tuple(_argument(name, value) for name, value in ir.parameters), launch.grid)


@lru_cache(maxsize=256)
def _analysed(text: str, arguments: tuple[Argument, ...], grid: tuple[Expr, Expr, Expr]) -> KernelTraffic:
    return analyse(text, arguments, grid)


def _argument(name: str, value: Value) -> Argument:
    """An argument of the kernel as the engine takes it."""
    if isinstance(value, TensorValue):
        return Pointer(name, name, value.offset * value.itemsize)
    if isinstance(value, DescriptorValue):
        return Descriptor(name, value.shape, value.strides, name)
    return Scalar(name, cast("Expr | int | float | bool", value))
