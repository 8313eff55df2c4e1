"""Compare the launches of two runs of a host function.

Two launches agree where they move the same bytes. So floats, and integers on which no memory access depends, may differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import sympy
from sympy import Expr
from triton.backends.compiler import GPUTarget

from ioaware.compilation.access_arguments import same_accesses
from ioaware.compilation.launches import (
    CapturedLaunch,
    CapturedOperator,
    DescriptorValue,
    Event,
    TensorValue,
    constexprs,
    items_of,
)

NOWHERE: Mapping[str, int] = {}
"""The values of two runs without symbols."""


def agree(symbolic: Sequence[Event], plain: Sequence[Event], values: Mapping[str, int], gpu: GPUTarget) -> bool:
    """Return whether a symbolic run equals the plain run launch by launch.

    It is compared at the given values of its symbols.
    """
    if len(symbolic) != len(plain):
        return False
    return all(_same(one, other, values, gpu) for one, other in zip(symbolic, plain, strict=True))


def _same(one: Event, other: Event, values: Mapping[str, int], gpu: GPUTarget) -> bool:
    at = _at(values)
    if isinstance(one, CapturedLaunch) and isinstance(other, CapturedLaunch):
        return (
            one.kernel.fn.__code__ == other.kernel.fn.__code__  # host code may redefine its kernel in each call
            and one.arguments.keys() == other.arguments.keys()
            and tuple(map(at, one.grid)) == other.grid
            and all(_close(one.arguments.get(name), other.arguments.get(name)) for name in constexprs(one.kernel))
            and one.options == other.options
            and _same_arguments(one, other, values, gpu)
        )
    if isinstance(one, CapturedOperator) and isinstance(other, CapturedOperator):
        return one.name == other.name and (at(one.read_bytes), at(one.write_bytes)) == (other.read_bytes, other.write_bytes)
    return False


def _same_arguments(one: CapturedLaunch, other: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> bool:
    """Return whether the arguments that accesses depend on are equal.

    Whether they do is found out for integers that differ alone, as it takes a compilation.
    """
    at = _at(values)
    differ = [name for name, value in one.arguments.items() if not _same_value(value, other.arguments[name], at)]
    fixed = set(constexprs(one.kernel))
    if any(name in fixed or not _is_integer(one.arguments[name]) or not _is_integer(other.arguments[name]) for name in differ):
        return False
    return not differ or same_accesses(one, {name: other.arguments[name] for name in differ}, values, gpu)


def _same_value(one: Any, other: Any, at: Callable[[Expr], Expr]) -> bool:
    """Compare two arguments, except floats.

    No address, mask or loop bound is a float unless it is constexpr.
    """
    if isinstance(one, Expr) and isinstance(other, Expr):
        return _equal(at(one), other)
    if isinstance(one, TensorValue) and isinstance(other, TensorValue):
        return (one.dtype, one.storage, at(one.offset)) == (other.dtype, other.storage, other.offset)
    if isinstance(one, DescriptorValue) and isinstance(other, DescriptorValue):
        return (
            one.block_shape == other.block_shape
            and _same_value(one.base, other.base, at)
            and all(_equal(at(a), b) for a, b in zip((*one.shape, *one.strides), (*other.shape, *other.strides), strict=True))
        )
    items, others = items_of(one), items_of(other)
    if items is not None and others is not None:
        return len(items) == len(others) and all(_same_value(a, b, at) for a, b in zip(items, others, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return True
    return type(one) is type(other) and (one is other or _equal(one, other))


def _at(values: Mapping[str, int]) -> Callable[[Expr], Expr]:
    """Return a function that substitutes these values for symbols."""

    def substituted(expr: Expr) -> Expr:
        formula: Any = expr
        return formula.xreplace({symbol: sympy.Integer(values[str(symbol)]) for symbol in formula.free_symbols})

    return substituted


def _is_integer(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, (Expr, Integral))


def _close(one: Any, other: Any) -> bool:
    """Compare two floats approximately; other kinds are compared elsewhere."""
    return not isinstance(one, float) or math.isclose(one, other)


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except (RuntimeError, ValueError):  # tensors and arrays, which no kernel accepts as constants: its compiler raises
        return False
