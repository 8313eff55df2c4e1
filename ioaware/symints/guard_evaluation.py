"""Evaluate torch's symbolic expressions at one point or at many.

The numbers are exact integers and Python floats.
"""

from __future__ import annotations

import math
import operator as _operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any, cast

import numpy as np
import sympy
from sympy.core.relational import Relational

from ioaware.analysis.formulas.exact_ratio import Number
from ioaware.symints.float_rounding import ROUNDED, computed_as_in_python, torch_functions

operator: Any = _operator


class UnknownFunctionError(Exception):
    """The expression contains a function without a rule."""


def compute(expr: Any, values: Mapping[str, Number]) -> Any:
    """Return `expr` at values of its symbols by name.

    The values are ints, or integer arrays of one shape for an array.

    Raises `UnknownFunctionError`.
    """
    return _compute(expr, values, {})


def _compute(expr: Any, values: Mapping[str, Number], done: dict[Any, Any]) -> Any:
    """Evaluate each subexpression once.

    Rounding up to a power of two repeats one 64 times.
    """
    if expr not in done:
        done[expr] = _compute_node(expr, values, done)
    return done[expr]


def _compute_node(expr: Any, values: Mapping[str, Number], done: dict[Any, Any]) -> Any:
    if isinstance(expr, sympy.Symbol):
        value = values[str(expr)]
        return value if isinstance(value, int) else _narrow(np.asarray(value))
    if isinstance(expr, sympy.Integer):
        return int(expr)
    if isinstance(expr, sympy.Float):
        return float(expr)
    if isinstance(expr, sympy.Rational):
        return Fraction(int(expr.p), int(expr.q))
    if expr in (sympy.true, sympy.false):
        return bool(expr)
    name = type(expr).__name__
    args = [_compute(argument, values, done) for argument in expr.args]
    if isinstance(expr, (*ROUNDED, Relational)) and not all(map(computed_as_in_python, expr.args)) and _is_close(expr, args):
        raise UnknownFunctionError(f"{name} of floats that differ in their last digits")
    if name in _FOLDS:
        return reduce(_elementwise(name, _FOLDS[name], 2), args)
    if name in _FUNCTIONS:
        return _elementwise(name, _FUNCTIONS[name], len(args))(*args)
    raise UnknownFunctionError(name)


def _elementwise(name: str, function: Callable[..., Any], arity: int) -> Callable[..., Any]:
    """Apply the function element by element to arrays, or to plain numbers.

    numpy computes it where the result is the same and cannot overflow, else Python's integers do.
    """

    def spread(*args: Any) -> Any:
        if not any(isinstance(arg, np.ndarray) for arg in args):
            return function(*args)
        if name in _NUMPY_FUNCTIONS and all(map(_is_small, args)) and (name not in _DIVISIONS or np.all(args[1])):
            return _NUMPY_FUNCTIONS[name](*args)
        return np.frompyfunc(function, arity, 1)(*(_wide(arg) for arg in args))

    return spread


SMALL = 2**31
"""Integers below this bound add and multiply without overflow in 64 bits."""


def _narrow(values: Any) -> Any:
    """Return an integer array as int64 where all of it fits, else as Python integers."""
    small = values.size and values.dtype != bool and values.min() > -SMALL and values.max() < SMALL
    return values.astype(np.int64 if small else object)


def _is_small(value: Any) -> bool:
    if not isinstance(value, np.ndarray):
        return isinstance(value, int) and abs(value) < SMALL
    found = cast("np.ndarray[Any, Any]", value)
    return found.dtype == bool or (found.dtype == np.int64 and found.size > 0 and bool(np.abs(found).max() < SMALL))


def _wide(value: Any) -> Any:
    """Return an array as Python integers and booleans."""
    return cast("np.ndarray[Any, Any]", value).astype(object) if isinstance(value, np.ndarray) else value


MAX_EXPONENT = 4096
"""Largest exponent of an integer power: no size has as many bits."""


def _power(base: Any, exponent: Any) -> Any:
    """Return a power, exact for integers.

    sympy writes a quotient as a power of -1.
    """
    if type(base) is int and type(exponent) is int and exponent < 0:
        return Fraction(1, _power(base, -exponent))
    if isinstance(exponent, int) and abs(base) > 1 and exponent > MAX_EXPONENT:
        raise OverflowError(f"{base}**{exponent} has too many digits")
    return base**exponent


def _shifted_left(value: int, bits: int) -> int:
    return value * _power(2, bits)


def _is_close(expr: Any, args: list[Any]) -> bool:
    """Return whether the last digits of floats decide a relation or a rounded number."""
    others = args[1:] or [_rounded(args[0], 2 if type(expr) is torch_functions.RoundToInt else 1)]
    pairs = np.broadcast(args[0], others[0])
    return any(math.isclose(one, other, abs_tol=1e-9) for one, other in pairs)


def _rounded(value: Any, parts: int) -> Any:
    """Return the nearest integer, half or the like."""
    return np.round(np.asarray(value, float) * parts) / parts


def _next_power_of_two(value: int) -> int:
    return 1 << (value - 1).bit_length()


def _digit(value: int, divisor: int, modulus: int) -> int:
    return value // divisor % modulus


def _ceiling(value: int, divisor: int) -> int:
    return -(-value // divisor)


def _where(condition: Any, one: Any, other: Any) -> Any:
    return one if condition else other


def _same(value: Any) -> Any:
    return value


_numpy: Any = np


def _bit_lengths(values: Any) -> Any:
    """Return bit lengths of integers below 2^53: the exponents of the floats."""
    return _numpy.frexp(_numpy.abs(values))[1].astype(np.int64)


def _next_powers_of_two(values: Any) -> Any:
    return _numpy.left_shift(1, _bit_lengths(values - 1))


_NUMPY_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "Add": _numpy.add,
    "Mul": _numpy.multiply,
    "Max": _numpy.maximum,
    "Min": _numpy.minimum,
    "And": _numpy.logical_and,
    "Or": _numpy.logical_or,
    "Not": _numpy.logical_not,
    "Equality": _numpy.equal,
    "Unequality": _numpy.not_equal,
    "StrictLessThan": _numpy.less,
    "LessThan": _numpy.less_equal,
    "StrictGreaterThan": _numpy.greater,
    "GreaterThan": _numpy.greater_equal,
    "FloorDiv": _numpy.floor_divide,
    "CleanDiv": _numpy.floor_divide,
    "Mod": _numpy.mod,
    "PythonMod": _numpy.mod,
    "BitwiseFn_bitwise_and": _numpy.bitwise_and,
    "BitwiseFn_bitwise_or": _numpy.bitwise_or,
    "BitwiseFn_bitwise_xor": _numpy.bitwise_xor,
    "BitLength": _bit_lengths,
    "NextPowerOfTwo": _next_powers_of_two,
}
"""Functions in which numpy agrees with Python on 64-bit integers.

Both round quotients down.
"""
_DIVISIONS = frozenset({"FloorDiv", "CleanDiv", "Mod", "PythonMod"})
_FOLDS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Mul": operator.mul,
    "Max": max,
    "Min": min,
    "And": lambda one, other: bool(one and other),
    "Or": lambda one, other: bool(one or other),
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "Pow": _power,
    "PowByNatural": _power,
    "FloatPow": _power,
    "Not": operator.not_,
    "Equality": operator.eq,
    "Unequality": operator.ne,
    "StrictLessThan": operator.lt,
    "LessThan": operator.le,
    "StrictGreaterThan": operator.gt,
    "GreaterThan": operator.ge,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "CeilDiv": _ceiling,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "ModularIndexing": _digit,
    "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv,
    "LShift": _shifted_left,
    "RShift": operator.rshift,
    "BitwiseFn_bitwise_and": operator.and_,
    "BitwiseFn_bitwise_or": operator.or_,
    "BitwiseFn_bitwise_xor": operator.xor,
    "BitLength": int.bit_length,
    "NextPowerOfTwo": _next_power_of_two,
    "FloorToInt": math.floor,
    "CeilToInt": math.ceil,
    "TruncToInt": math.trunc,
    "RoundToInt": round,
    "ToFloat": float,
    "Identity": _same,
    "Where": _where,
    **{f"OpaqueUnaryFn_{name}": getattr(math, name) for name in ("sqrt", "exp", "log", "log2", "sin", "cos", "tan", "tanh")},
}
