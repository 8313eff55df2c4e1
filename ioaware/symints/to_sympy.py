"""Translate torch's symbolic expressions to plain sympy.

FloorDiv, Mod, Max, ... become floor, Mod and Max.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy
from sympy import Symbol
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanAtom
from torch.utils._sympy import functions as _functions

from ioaware.symints.float_rounding import ROUNDED, rounds_once

torch_functions: Any = _functions
_sympy: Any = sympy


EMPTY: Mapping[Any, Any] = {}


class OpaqueExpressionError(Exception):
    """The expression contains a function without a plain form.

    Such are bit operations, floats, and what several roundings of floats may decide.
    """


def plain(expr: Any, names: Mapping[Any, Symbol], known: Mapping[Any, Any] = EMPTY) -> Any:
    """Return `expr` with sympy's functions and the symbols of `names`.

    `known` maps further functions to their replacements. Raises `OpaqueExpressionError` where there is no such form.
    """
    if isinstance(expr, sympy.Symbol):
        if expr not in names:  # read from a tensor's data
            raise OpaqueExpressionError(str(expr))
        return names[expr]
    if isinstance(expr, (sympy.Rational, BooleanAtom)):
        return expr
    if isinstance(expr, sympy.Float) and rounds_once(expr):
        return _sympy.Rational(expr)
    if isinstance(expr, (*ROUNDED, Relational)) and not all(map(rounds_once, expr.args)):
        raise OpaqueExpressionError(str(expr))
    args = [plain(argument, names, known) for argument in expr.args]
    kind: Any = expr.func
    if kind in known:
        return known[kind](*args)
    if kind in _SAME:
        return expr.func(*args)
    if kind in _RULES:
        return _RULES[kind](*args)
    raise OpaqueExpressionError(kind.__name__)


def has_plain_form(expr: Any) -> bool:
    """Return whether `plain` accepts the expression under any symbol names."""
    try:
        plain(expr, {symbol: symbol for symbol in expr.free_symbols})
    except OpaqueExpressionError:
        return False
    return True


def floor_of(numerator: Any, denominator: Any) -> Any:
    """Return floor(a / b), written as a ceiling for (n + b - 1) // b and -(-n // b)."""
    numerator = _sympy.expand(numerator)
    lifted = numerator - denominator + 1
    if len(_sympy.Add.make_args(lifted)) < len(_sympy.Add.make_args(numerator)):
        return _sympy.ceiling(lifted / denominator)
    if numerator.could_extract_minus_sign():
        return -_sympy.ceiling(-numerator / denominator)
    return _sympy.floor(numerator / denominator)


def _same(value: Any) -> Any:
    return value


def _quotient(a: Any, b: Any) -> Any:
    return a / b


def _ceiling(a: Any, b: Any) -> Any:
    return _sympy.ceiling(a / b)


def _digit(a: Any, b: Any, c: Any) -> Any:
    return _sympy.Mod(floor_of(a, b), c)


def _power(a: Any, b: Any) -> Any:
    """Return a power; formulas have none with an exponent that a parameter decides."""
    if not b.is_number:
        raise OpaqueExpressionError(f"{a}**({b})")
    return a**b


def _shifted_left(a: Any, b: Any) -> Any:
    return a * _power(sympy.Integer(2), b)


def _shifted_right(a: Any, b: Any) -> Any:
    return floor_of(a, _power(sympy.Integer(2), b))


def _truncated(value: Any) -> Any:
    """Return a number without its fraction, if its sign is known."""
    if value.is_nonnegative:
        return _sympy.floor(value)
    if value.is_nonpositive:
        return _sympy.ceiling(value)
    raise OpaqueExpressionError(f"int({value})")


def _rounded_to_even(value: Any) -> Any:
    """Return the nearest integer, of two the even one, as Python's `round`.

    floor(x + 1/2), less one where x is a half above an even integer. There the ceiling and the floor are equal; elsewhere they
    differ by one.
    """
    if value.is_integer:
        return value
    nearest = _sympy.floor(_sympy.expand(value + sympy.Rational(1, 2)))
    if _sympy.fraction(_sympy.together(value))[1] % 2 == 1:  # no half
        return nearest
    quarter = _sympy.expand(value / 2 - sympy.Rational(1, 4))
    return nearest + _sympy.ceiling(quarter) - _sympy.floor(quarter) - 1


def _where(condition: Any, a: Any, b: Any) -> Any:
    return _sympy.Piecewise((a, condition), (b, True))


_SAME = frozenset(
    {
        *(sympy.Add, sympy.Mul),
        *(sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge, sympy.And, sympy.Or, sympy.Not),
    }
)
_RULES: Mapping[Any, Callable[..., Any]] = {
    torch_functions.FloorDiv: floor_of,
    torch_functions.CleanDiv: _quotient,
    torch_functions.CeilDiv: _ceiling,
    torch_functions.IntTrueDiv: _quotient,
    torch_functions.FloatTrueDiv: _quotient,
    torch_functions.ToFloat: _same,
    torch_functions.Identity: _same,
    torch_functions.FloorToInt: _sympy.floor,
    torch_functions.CeilToInt: _sympy.ceiling,
    torch_functions.TruncToInt: _truncated,
    torch_functions.RoundToInt: _rounded_to_even,
    torch_functions.Mod: _sympy.Mod,
    torch_functions.PythonMod: _sympy.Mod,
    torch_functions.ModularIndexing: _digit,
    torch_functions.Max: _sympy.Max,
    torch_functions.Min: _sympy.Min,
    sympy.Pow: _power,
    torch_functions.PowByNatural: _power,
    torch_functions.LShift: _shifted_left,
    torch_functions.RShift: _shifted_right,
    torch_functions.Where: _where,
}
