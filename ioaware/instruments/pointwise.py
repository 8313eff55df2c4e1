"""torch's symbolic expressions computed as host code would, at one point or at many: integers exactly, floats as Python's."""

from __future__ import annotations

import math
import operator as _operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import sympy

from ioaware.analysis.ratio import Number

operator: Any = _operator


class UnknownFunctionError(Exception):
    """The expression holds a function that has no rule here."""


def compute(expr: Any, values: Mapping[str, Number]) -> Any:
    """The value of `expr` at these values of its symbols by name: ints, or integer arrays of one shape, for an object array.

    Raises `UnknownFunctionError`.
    """
    if isinstance(expr, sympy.Symbol):
        value = values[str(expr)]
        return value if isinstance(value, int) else np.asarray(value).astype(object)
    if isinstance(expr, sympy.Integer):
        return int(expr)
    if isinstance(expr, sympy.Float):
        return float(expr)
    if isinstance(expr, sympy.Rational):
        return Fraction(int(expr.p), int(expr.q))
    if expr in (sympy.true, sympy.false):
        return bool(expr)
    name = type(expr).__name__
    args = [compute(argument, values) for argument in expr.args]
    if name in _FOLDS:
        return reduce(_everywhere(_FOLDS[name], 2), args)
    if name in _FUNCTIONS:
        return _everywhere(_FUNCTIONS[name], len(args))(*args)
    raise UnknownFunctionError(name)


def _everywhere(function: Callable[..., Any], arity: int) -> Callable[..., Any]:
    """The function on Python's numbers, element by element where an argument is an array of them."""
    spread: Any = np.frompyfunc(function, arity, 1)
    return lambda *args: (spread if any(isinstance(arg, np.ndarray) for arg in args) else function)(*args)


def _power(base: Any, exponent: Any) -> Any:
    """Integers stay exact: sympy writes a quotient as a power of -1."""
    if type(base) is int and type(exponent) is int and exponent < 0:
        return Fraction(1, base**-exponent)
    return base**exponent


def _equal(one: Any, other: Any) -> bool:
    """Floats are computed here in another order than by sympy, which takes decisions."""
    return math.isclose(one, other) if isinstance(one, float) or isinstance(other, float) else bool(one == other)


def _next_power_of_two(value: int) -> int:
    return 1 << (value - 1).bit_length()


def _digit(value: int, divisor: int, modulus: int) -> int:
    return value // divisor % modulus


def _ceiling(value: int, divisor: int) -> int:
    return -(-value // divisor)


def _choice(condition: Any, one: Any, other: Any) -> Any:
    return one if condition else other


def _same(value: Any) -> Any:
    return value


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
    "PowByNatural": operator.pow,
    "FloatPow": operator.pow,
    "Not": operator.not_,
    "Equality": _equal,
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
    "LShift": operator.lshift,
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
    "Where": _choice,
    **{f"OpaqueUnaryFn_{name}": getattr(math, name) for name in ("sqrt", "exp", "log", "log2", "sin", "cos", "tan", "tanh")},
}
