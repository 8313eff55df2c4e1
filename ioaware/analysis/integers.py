"""The functions that formulas are written with, beyond + and *: sympy's, under the names and types used here."""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr, Symbol

_sympy: Any = sympy  # its functions are untyped; their types are given below


def _any(value: Any) -> Any:
    return value


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


class Series(sympy.Sum):
    """A sum that is made as it is given: sympy's own looks through all of its term for cases to bring out of it, again whenever
    something around it is exchanged."""

    def __new__(cls, term: Any, *limits: Any) -> Any:
        """`limits` are (index, low, high), the innermost first; the sum of a sum is one sum."""
        made: Any = sympy.Expr.__new__(cls)
        inner: tuple[Any, ...] = term.args[1:] if isinstance(term, Series) else ()
        made._args = (term.args[0] if inner else term, *inner, *(_sympy.Tuple(*limit) for limit in limits))
        made.is_commutative = True
        return made

    @property
    def free_symbols(self) -> set[Any]:
        """What is left when the indices are not."""
        term, *limits = self.args
        free: set[Any] = set(_any(term).free_symbols)
        for index, low, high in map(_any, limits):
            free = free - {index} | low.free_symbols | high.free_symbols
        return free


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
