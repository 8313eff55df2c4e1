"""What one captured launch requests: its IR, its arguments and its grid, given to the engine that turns them into formulas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from sympy import Expr, Symbol
from triton.backends.compiler import GPUTarget

from ioaware.analysis.formulas.hermite import closed
from ioaware.analysis.formulas.piecewise import flattened
from ioaware.analysis.formulas.ranges import Range, within
from ioaware.analysis.ir import Argument, Count, Descriptor, KernelTraffic, Pointer, Scalar, analyse
from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.kernel_analysis import touches
from ioaware.analysis.ir.loops.access_totals import Programs
from ioaware.compilation import traffic_cache
from ioaware.compilation.launches import CapturedLaunch, DescriptorValue, TensorValue, Value, substituted
from ioaware.compilation.triton_ir import first_ir, integer_at
from ioaware.symints.guards import ANYTHING, Known


def kernel_traffic(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget, known: Known = ANYTHING) -> KernelTraffic:
    """The traffic of one captured launch; the same launch again comes from memory. Formulas are as simple as what is `known`
    of the parameters lets them be."""
    ir = first_ir(launch, values, gpu)
    coarse: Any = {symbol: factor * symbol for symbol, factor in known.multiples.items()}
    arguments = tuple(_argument(name, substituted(value, coarse)) for name, value in ir.parameters)
    width, height, depth = (_exchanged(extent, coarse) for extent in launch.grid)
    ranges, multiples = (tuple(sorted(told.items(), key=str)) for told in (known.ranges, known.multiples))
    return found(ir.text, arguments, (width, height, depth), ranges, multiples)


@lru_cache(maxsize=256)
def found(
    text: str,
    arguments: tuple[Argument, ...],
    grid: tuple[Expr, Expr, Expr],
    ranges: tuple[tuple[Symbol, Range], ...],
    multiples: tuple[tuple[Symbol, int], ...],
) -> KernelTraffic:
    """The traffic in units of the `multiples`, brought back to the parameters: from disk, or made."""
    name = traffic_cache.name_of(text, arguments, grid, (ranges, multiples))
    traffic = traffic_cache.find(name) if name else None
    if traffic is None:
        fine: Any = {symbol: cast(Any, symbol) / factor for symbol, factor in multiples}
        within_them = dict(ranges)
        traffic = _with_formulas(
            analyse(text, arguments, grid),
            lambda expr: flattened(within(_exchanged(closed(expr), fine), within_them)),
            lambda note: _in_parameters(note, multiples),
        )
        if name:
            traffic_cache.keep(name, traffic)
    return traffic


def launch_touches(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> tuple[list[Touch], Programs]:
    """The instructions of one captured launch that touch memory, at the given values: no symbols but indices are left."""
    ir = first_ir(launch, values, gpu)
    arguments = [_at(_argument(name, value), values) for name, value in ir.parameters]
    return touches(ir.text, arguments, [integer_at(size, values) for size in launch.grid])


def _at(argument: Argument, values: Mapping[str, int]) -> Argument:
    """The argument with numbers for symbols."""

    def number(value: Expr | int) -> int:
        return integer_at(value, values) if isinstance(value, Expr) else value

    if isinstance(argument, Pointer):
        return replace(argument, offset_bytes=number(argument.offset_bytes))
    if isinstance(argument, Descriptor):
        return replace(argument, shape=tuple(map(number, argument.shape)), strides=tuple(map(number, argument.strides)))
    return replace(argument, value=number(argument.value)) if isinstance(argument.value, Expr) else argument


def _exchanged(expr: Any, symbols: Any) -> Expr:
    return expr.xreplace(symbols)


def _in_parameters(note: str, multiples: Iterable[tuple[Symbol, int]]) -> str:
    """What a note says of lengths in units of these multiples, of the lengths themselves."""
    for symbol, factor in multiples:
        note = re.sub(rf"\b{re.escape(str(symbol))} % (\d+) == 0", lambda m: f"{symbol} % {factor * int(m[1])} == 0", note)  # noqa: B023
    return note


def _with_formulas(kernel: KernelTraffic, change: Callable[[Expr], Expr], tell: Callable[[str], str]) -> KernelTraffic:
    """The same traffic, its formulas and what is told of them changed."""

    def count(one: Count) -> Count:
        return Count(change(one.expr))

    def maybe(one: Count | None) -> Count | None:
        return None if one is None else count(one)

    accesses = tuple(
        replace(
            access,
            elements=count(access.elements),
            executions=count(access.executions),
            sectors=maybe(access.sectors),
            notes=tuple(map(tell, access.notes)),
        )
        for access in kernel.accesses
    )
    return replace(
        kernel,
        accesses=accesses,
        read_bytes=count(kernel.read_bytes),
        write_bytes=count(kernel.write_bytes),
        atomic_bytes=count(kernel.atomic_bytes),
        read_sector_bytes=maybe(kernel.read_sector_bytes),
        write_sector_bytes=maybe(kernel.write_sector_bytes),
        flops=count(kernel.flops),
        notes=tuple(map(tell, kernel.notes)),
    )


def _argument(name: str, value: Value) -> Argument:
    """An argument of the kernel as the engine takes it."""
    if isinstance(value, TensorValue):
        return Pointer(name, name, value.offset * value.itemsize)
    if isinstance(value, DescriptorValue):
        return Descriptor(name, value.shape, value.strides, name)
    return Scalar(name, cast("Expr | int | float | bool", value))
