"""Derive the traffic formulas of one captured launch.

They are derived from its IR, arguments and grid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import sympy
from sympy import Expr, Symbol
from triton.backends.compiler import GPUTarget

from ioaware.analysis.formulas.common_parts import Substitution
from ioaware.analysis.formulas.hermite import close_floor_sums
from ioaware.analysis.formulas.piecewise import flatten
from ioaware.analysis.formulas.ranges import Range, restrict
from ioaware.analysis.ir import Argument, Count, Descriptor, KernelTraffic, Pointer, Scalar, analyse
from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.kernel_analysis import touches
from ioaware.analysis.ir.loops.access_totals import Programs
from ioaware.compilation import traffic_cache
from ioaware.compilation.launches import CapturedLaunch, DescriptorValue, TensorValue, Value, substitute
from ioaware.compilation.triton_ir import FirstIR, first_ir, integer_at
from ioaware.symints.guards import NO_FACTS, ParamFacts


def kernel_traffic(
    launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget, facts: ParamFacts = NO_FACTS
) -> KernelTraffic:
    """Return the traffic of one captured launch; repeated launches are cached.

    Formulas are simplified under the `facts` about the parameters.
    """
    ir = first_ir(launch, values, gpu)
    coarse: Any = {symbol: factor * symbol for symbol, factor in facts.multiples.items()}
    arguments = _arguments((name, substitute(value, coarse)) for name, value in ir.parameters)
    width, height, depth = (_exchanged(extent, coarse) for extent in launch.grid)
    ranges, multiples = (tuple(sorted(fact.items(), key=str)) for fact in (facts.ranges, facts.multiples))
    return cached_traffic(ir.text, arguments, (width, height, depth), ranges, multiples)


@lru_cache(maxsize=256)
def cached_traffic(
    text: str,
    arguments: tuple[Argument, ...],
    grid: tuple[Expr, Expr, Expr],
    ranges: tuple[tuple[Symbol, Range], ...],
    multiples: tuple[tuple[Symbol, int], ...],
) -> KernelTraffic:
    """Return the traffic from disk, or derive it.

    It is derived in units of the `multiples` and substituted back.
    """
    name = traffic_cache.name_of(text, arguments, grid, (ranges, multiples))
    traffic = traffic_cache.find(name) if name else None
    if traffic is None:
        fine = Substitution({symbol: cast(Any, symbol) / factor for symbol, factor in multiples})
        within_them = dict(ranges)
        traffic = with_formulas(
            analyse(text, arguments, grid),
            lambda expr: flatten(restrict(fine(close_floor_sums(expr)), within_them)),
            lambda note: _in_parameters(note, multiples),
        )
        if name:
            traffic_cache.keep(name, traffic)
    return traffic


def launch_touches(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> tuple[list[Touch], Programs]:
    """Return the memory instructions of one captured launch at the given values.

    Only indices stay symbolic.
    """
    ir = first_ir(launch, values, gpu)
    return touches(ir.text, arguments_at(ir, values), [integer_at(size, values) for size in launch.grid])


def arguments_at(ir: FirstIR, values: Mapping[str, int]) -> list[Argument]:
    """Return the arguments of a kernel with numbers for symbols."""
    return [_at(argument, values) for argument in _arguments(ir.parameters)]


def _at(argument: Argument, values: Mapping[str, int]) -> Argument:
    """Return the argument with numbers for symbols."""

    def number(value: Expr | int) -> int:
        return integer_at(value, values) if isinstance(value, Expr) else value

    if isinstance(argument, Pointer):
        size = None if argument.size_bytes is None else number(argument.size_bytes)
        elements = None if argument.elements is None else number(argument.elements)
        return replace(argument, offset_bytes=number(argument.offset_bytes), size_bytes=size, elements=elements)
    if isinstance(argument, Descriptor):
        return replace(argument, shape=tuple(map(number, argument.shape)), strides=tuple(map(number, argument.strides)))
    return replace(argument, value=number(argument.value)) if isinstance(argument.value, Expr) else argument


def _exchanged(expr: Any, symbols: Any) -> Expr:
    return expr.xreplace(symbols)


def _in_parameters(note: str, multiples: Iterable[tuple[Symbol, int]]) -> str:
    """Rewrite a note about lengths in units of these multiples.

    The new note is about the lengths themselves.
    """
    for symbol, factor in multiples:
        note = re.sub(rf"\b{re.escape(str(symbol))} % (\d+) == 0", lambda m: f"{symbol} % {factor * int(m[1])} == 0", note)  # noqa: B023
    return note


def with_formulas(kernel: KernelTraffic, rewrite: Callable[[Expr], Expr], reword: Callable[[str], str]) -> KernelTraffic:
    """Return the traffic with rewritten formulas and notes."""

    def count(one: Count) -> Count:
        return replace(one, expr=rewrite(one.expr))

    def optional(one: Count | None) -> Count | None:
        return None if one is None else count(one)

    accesses = tuple(
        replace(
            access,
            elements=count(access.elements),
            executions=count(access.executions),
            sectors=optional(access.sectors),
            notes=tuple(map(reword, access.notes)),
        )
        for access in kernel.accesses
    )
    return replace(
        kernel,
        accesses=accesses,
        read_bytes=count(kernel.read_bytes),
        write_bytes=count(kernel.write_bytes),
        atomic_bytes=count(kernel.atomic_bytes),
        read_sector_bytes=optional(kernel.read_sector_bytes),
        write_sector_bytes=optional(kernel.write_sector_bytes),
        flops=count(kernel.flops),
        limits=tuple(replace(limit, value=count(limit.value)) for limit in kernel.limits),
        notes=tuple(map(reword, kernel.notes)),
    )


def _arguments(parameters: Iterable[tuple[str, Value]]) -> tuple[Argument, ...]:
    """Return the arguments of the kernel as the IR analysis takes them."""
    given = list(parameters)
    storages = [_storage(value) for _, value in given]
    shared = [storage for storage in dict.fromkeys(storages) if storage is not None and storages.count(storage) > 1]
    memory = {storage: str(number) for number, storage in enumerate(shared)}  # no numbers that another launch has not
    return tuple(
        _argument(name, value, "" if storage is None else memory.get(storage, ""))
        for (name, value), storage in zip(given, storages, strict=True)
    )


def _storage(value: Value) -> int | None:
    tensor = value.base if isinstance(value, DescriptorValue) else value
    return tensor.storage if isinstance(tensor, TensorValue) else None


def _argument(name: str, value: Value, memory: str) -> Argument:
    if isinstance(value, TensorValue):
        elements = sympy.Mul(*value.shape)
        return Pointer(name, name, value.offset * value.itemsize, memory, value.storage_bytes, elements)
    if isinstance(value, DescriptorValue):
        return Descriptor(name, value.shape, value.strides, name, memory)
    return Scalar(name, cast("Expr | int | float | bool", value))
