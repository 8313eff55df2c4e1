"""The functions that formulas are written with, beyond + and *: sympy's, under the names and types used here."""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr, Symbol

_sympy: Any = sympy  # its functions are untyped; their types are given below


class Holds(sympy.Function):
    """[x >= 0]: 1 where x is not negative, else 0. Unlike a Piecewise it may stand inside a sum: sympy leaves it alone."""

    nargs = 1
    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, x: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Decided where sympy can tell the sign."""
        if x.is_nonnegative:
            return sympy.S.One
        return sympy.S.Zero if x.is_negative else None


def positive_symbols(names: str) -> tuple[Symbol, ...]:
    """Positive integers, so that sympy may simplify ceilings and maxima of them."""
    return tuple(_sympy.symbols(names, integer=True, positive=True, seq=True))


def index(name: str) -> Symbol:
    """An index that counts from 0."""
    return _sympy.Symbol(name, integer=True, nonnegative=True)


def ceil_div(a: Expr | int, b: Expr | int) -> Expr:
    return _sympy.ceiling(_sympy.Integer(a) / b if isinstance(a, int) else a / b)


def floor_div(a: Expr | int, b: Expr | int) -> Expr:
    return _sympy.floor(_sympy.Integer(a) / b if isinstance(a, int) else a / b)


def largest(*terms: Expr | int) -> Expr:
    return _sympy.Max(*terms)


def smallest(*terms: Expr | int) -> Expr:
    return _sympy.Min(*terms)


def square_root(x: Expr) -> Expr:
    """Not for exact evaluation: leading terms of bounds are the only formulas that hold one."""
    return _sympy.sqrt(x)


def series(term: Expr, over: Symbol, count: Expr) -> Expr:
    """The sum of `term` for `over` = 0 .. count - 1."""
    return _sympy.Sum(term, (over, 0, count - 1))
