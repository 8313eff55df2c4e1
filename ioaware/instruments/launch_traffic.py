"""What one captured launch requests: its IR, its arguments and its grid, given to the engine that turns them into formulas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import cast

from sympy import Expr
from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir import Argument, Descriptor, KernelTraffic, Pointer, Scalar, analyse
from ioaware.analysis.ir.counts import Programs
from ioaware.analysis.ir.kernel import touches
from ioaware.analysis.ir.record import Touch
from ioaware.instruments.captured import CapturedLaunch, DescriptorValue, TensorValue, Value
from ioaware.instruments.compile import first_ir, integer_at


def kernel_traffic(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> KernelTraffic:
    """The traffic of one captured launch; the same launch again comes from memory."""
    return _analysed(*_given(launch, values, gpu), launch.grid)


def launch_touches(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> tuple[list[Touch], Programs]:
    """The instructions of one captured launch that touch memory, at the given values: no symbols but indices are left."""
    text, arguments = _given(launch, values, gpu)
    return touches(text, [_at(argument, values) for argument in arguments], [integer_at(size, values) for size in launch.grid])


def _given(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> tuple[str, tuple[Argument, ...]]:
    ir = first_ir(launch, values, gpu)
    return ir.text, tuple(_argument(name, value) for name, value in ir.parameters)


def _at(argument: Argument, values: Mapping[str, int]) -> Argument:
    """The argument with numbers for symbols."""

    def number(value: Expr | int) -> int:
        return integer_at(value, values) if isinstance(value, Expr) else value

    if isinstance(argument, Pointer):
        return replace(argument, offset_bytes=number(argument.offset_bytes))
    if isinstance(argument, Descriptor):
        return replace(argument, shape=tuple(map(number, argument.shape)), strides=tuple(map(number, argument.strides)))
    return replace(argument, value=number(argument.value)) if isinstance(argument.value, Expr) else argument


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
