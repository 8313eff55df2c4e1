"""The functions that formulas are written with, beyond + and *: sympy's, under the names and types used here."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import sympy
from sympy import Expr, Symbol

_sympy: Any = sympy  # its functions are untyped; their types are given below


def arguments(expr: Any) -> tuple[Any, ...]:
    """What an expression is made of, without sympy's types."""
    return tuple(expr.args)


@lru_cache(maxsize=16384)
def free_symbols(expr: Any) -> frozenset[Any]:
    """What an expression needs values for, as sympy's own `free_symbols`, which simplifies every sum to find that out."""
    if isinstance(expr, sympy.Symbol):
        return frozenset({cast(Any, expr)})
    if not isinstance(expr, sympy.Sum):
        return frozenset[Any]().union(*map(free_symbols, arguments(expr)))
    body, *limits = arguments(expr)
    found = free_symbols(body)
    for limit in limits:  # the first limit is the innermost
        index, low, high = arguments(limit)
        found = found - {index} | free_symbols(low) | free_symbols(high)
    return found


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
        return set(free_symbols(self))


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
