"""torch's symbolic integers as plain sympy: its own functions (FloorDiv, Mod, Max, ...) turned into sympy's floor, Mod, Max."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy
from sympy import Symbol
from torch.utils._sympy import functions as _functions

torch_functions: Any = _functions
_sympy: Any = sympy


EMPTY: Mapping[Any, Any] = {}


class OpaqueExpressionError(Exception):
    """The expression holds a function that has no plain form: bits, floats, roundings of floats."""


def plain(expr: Any, names: Mapping[Any, Symbol], known: Mapping[Any, Any] = EMPTY) -> Any:
    """`expr` with sympy's functions and the symbols of `names`, functions of `known` replaced by its values.

    Raises `OpaqueExpressionError` where it has no such form."""
    if isinstance(expr, sympy.Symbol):
        if expr not in names:  # read from a tensor's data
            raise OpaqueExpressionError(str(expr))
        return names[expr]
    if isinstance(expr, sympy.Integer):
        return expr
    args = [plain(argument, names, known) for argument in expr.args]
    kind: Any = type(expr)
    if kind in known:
        return known[kind](*args)
    if kind in _SAME:
        return expr.func(*args)
    if kind in _RULES:
        return _RULES[kind](*args)
    raise OpaqueExpressionError(kind.__name__)


def floor_of(numerator: Any, denominator: Any) -> Any:
    """floor(a / b), as a ceiling where that is what was meant: (n + b - 1) // b and -(-n // b)."""
    numerator = _sympy.expand(numerator)
    lifted = numerator - denominator + 1
    if len(_sympy.Add.make_args(lifted)) < len(_sympy.Add.make_args(numerator)):
        return _sympy.ceiling(lifted / denominator)
    if numerator.could_extract_minus_sign():
        return -_sympy.ceiling(-numerator / denominator)
    return _sympy.floor(numerator / denominator)


def _same(value: Any) -> Any:
    return value


_SAME = frozenset(
    {
        *(sympy.Add, sympy.Mul, sympy.Pow),
        *(sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge, sympy.And, sympy.Or, sympy.Not),
    }
)
_RULES: Mapping[Any, Callable[..., Any]] = {
    torch_functions.FloorDiv: floor_of,
    torch_functions.CleanDiv: lambda a, b: a / b,
    torch_functions.CeilDiv: lambda a, b: _sympy.ceiling(a / b),
    torch_functions.IntTrueDiv: lambda a, b: a / b,
    torch_functions.FloatTrueDiv: lambda a, b: a / b,
    torch_functions.ToFloat: _same,
    torch_functions.Identity: _same,
    torch_functions.FloorToInt: _sympy.floor,
    torch_functions.CeilToInt: _sympy.ceiling,
    torch_functions.TruncToInt: _sympy.floor,  # symbols are positive, and so is what host code makes integers of
    torch_functions.Mod: _sympy.Mod,
    torch_functions.PythonMod: _sympy.Mod,
    torch_functions.ModularIndexing: lambda a, b, c: _sympy.Mod(floor_of(a, b), c),
    torch_functions.Max: _sympy.Max,
    torch_functions.Min: _sympy.Min,
    torch_functions.PowByNatural: lambda a, b: a**b,
    torch_functions.LShift: lambda a, b: a * 2**b,
    torch_functions.RShift: lambda a, b: floor_of(a, 2**b),
    torch_functions.Where: lambda c, a, b: _sympy.Piecewise((a, c), (b, True)),
}
