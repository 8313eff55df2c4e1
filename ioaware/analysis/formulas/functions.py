"""Define the functions of formulas beyond + and *.

They are sympy's, with the names and types used here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import sympy
from sympy import Expr, Symbol

_sympy: Any = sympy  # its functions are untyped; their types are given below


def arguments(expr: Any) -> tuple[Any, ...]:
    """Return the arguments of an expression, untyped."""
    return tuple(expr.args)


@lru_cache(maxsize=16384)
def free_symbols(expr: Any) -> frozenset[Any]:
    """Return the symbols that need values.

    Why not sympy's `free_symbols`: it simplifies every sum first.
    """
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
    """[x >= 0]: 1 where x is not negative, else 0.

    Unlike a Piecewise it may stand inside a sum.
    """

    nargs = 1
    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, x: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Resolve the bracket where sympy can decide the sign."""
        if x.is_nonnegative:
            return sympy.S.One
        return sympy.S.Zero if x.is_negative else None


class Series(sympy.Sum):
    """Unevaluated sum.

    Why not sympy's own: it searches its term for cases whenever the expression around it changes.
    """

    def __new__(cls, term: Any, *limits: Any) -> Any:
        """Build a sum; `limits` are (index, low, high), innermost first.

        A sum of a sum is one sum.
        """
        made: Any = sympy.Expr.__new__(cls)
        inner: tuple[Any, ...] = term.args[1:] if isinstance(term, Series) else ()
        made._args = (term.args[0] if inner else term, *inner, *(_sympy.Tuple(*limit) for limit in limits))
        made.is_commutative = True
        return made

    @property
    def free_symbols(self) -> set[Any]:
        """Return the symbols that are not indices."""
        return set(free_symbols(self))


def positive_symbols(names: str) -> tuple[Symbol, ...]:
    """Return positive integer symbols.

    sympy may simplify their ceilings and maxima.
    """
    return tuple(_sympy.symbols(names, integer=True, positive=True, seq=True))


def index(name: str) -> Symbol:
    """Return an index that counts from 0."""
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
    """Return a square root, for leading terms of bounds only.

    It has no exact evaluation.
    """
    return _sympy.sqrt(x)


def series(term: Expr, over: Symbol, count: Expr) -> Expr:
    """Return the sum of `term` for `over` = 0 .. count - 1."""
    return _sympy.Sum(term, (over, 0, count - 1))
