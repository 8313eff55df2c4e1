"""Distinguish cases by divisibility: aligned lengths, and all others.

Each of the two has a formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import lcm
from typing import Any

import sympy
from sympy import Expr

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.formulas.functions import arguments
from ioaware.analysis.formulas.printing import show

_sympy: Any = sympy
MAX_NODES = 3000
"""Largest formula, in nodes, that is simplified.

Larger ones are not meant to be read.
"""


@dataclass(frozen=True, slots=True)
class Cases:
    """`whole` where `where` holds, `otherwise` elsewhere.

    None for no distinction or an unknown value.
    """

    whole: Expr
    where: Any = None
    otherwise: Expr | None = None
    multiples: tuple[tuple[Any, int], ...] = ()
    """The multiple of each length, where `where` is a divisibility condition."""

    def is_there(self, other: Expr) -> bool:
        """Return whether another formula equals this one where `where` holds."""
        here = drop_exact_roundings(_sympy.expand(other), dict(self.multiples))
        return _sympy.expand(here) == _sympy.expand(self.whole)

    def holds(self, values: Mapping[str, int]) -> bool:
        """Return whether the lengths are these multiples.

        Raises `ValueError` where a value is missing.
        """
        return all(evaluate(length, values) % divisor == 0 for length, divisor in self.multiples)


@lru_cache(maxsize=1024)
def cases(expr: Expr) -> Cases:
    """Return the formula for aligned lengths, and the other case.

    The formula for aligned lengths is without their roundings.

    A choice by another condition stays in the formula.
    """
    if sum(1 for _, _ in zip(range(MAX_NODES), _sympy.preorder_traversal(expr), strict=False)) == MAX_NODES:
        return _first(expr)
    found: dict[Any, Any] = {}
    wanted: dict[Any, int] = {}
    for piece in _pieces(expr):
        value, condition = piece.args[0]
        multiples = _multiples(condition)
        if multiples is None:
            return _first(expr)
        found[piece] = value
        for length, divisor in multiples.items():
            wanted[length] = lcm(wanted.get(length, 1), divisor)
    if not found:
        return Cases(expr)
    plain = drop_exact_roundings(_replaced(expr, found), wanted)
    whole = min((plain, _sympy.expand(plain)), key=lambda value: len(show(value)))
    rest: Any = expr
    if not all(piece.args[-1][1] == True for piece in found):  # noqa: E712 - sympy's own
        rest = None
    elif expr in found and len(rest.args) == 2:
        rest = rest.args[1].args[0]
    return Cases(whole, divisible(wanted), rest, tuple(wanted.items()))


def divisible(multiples: Mapping[Any, int]) -> Any:
    """Return the condition that lengths are multiples of these numbers."""
    ordered = sorted(multiples.items(), key=lambda pair: str(pair[0]))
    parts = [_sympy.Eq(_sympy.Mod(length, divisor, evaluate=False), 0, evaluate=False) for length, divisor in ordered]
    return parts[0] if len(parts) == 1 else _sympy.And(*parts, evaluate=False)


def drop_exact_roundings(expr: Expr, multiples: Mapping[Any, int]) -> Expr:
    """Drop the roundings that are exact where lengths are multiples of these numbers."""
    found: Any = expr
    rounded = {
        node: node.args[0]
        for node in found.atoms(sympy.ceiling, sympy.floor)
        if all(_is_whole(term, multiples) for term in _sympy.Add.make_args(_sympy.expand(node.args[0])))
    }
    return found.xreplace(rounded)


def _is_whole(term: Any, multiples: Mapping[Any, int]) -> bool:
    """Return whether a product of a number and lengths is an integer."""
    number, lengths = term.as_coeff_Mul()
    if not number.is_Rational or not lengths.is_integer:
        return False
    divisor = 1
    for length, by in multiples.items():
        if lengths == length or length in lengths.args:
            divisor *= by
        elif isinstance(length, sympy.Mul) and set(length.args) <= set(lengths.args):
            divisor = lcm(divisor, by)
    return (number * divisor).is_Integer


def _pieces(expr: Any) -> Iterable[Any]:
    """Yield the choices in a sum or product, but none inside other functions."""
    if isinstance(expr, sympy.Piecewise):
        return [expr]
    return [piece for part in expr.args for piece in _pieces(part)] if isinstance(expr, (sympy.Add, sympy.Mul)) else []


def _replaced(expr: Any, by: Mapping[Any, Any]) -> Any:
    """Replace as `xreplace` does, where choices are only inside sums and products."""
    if expr in by:
        return by[expr]
    return expr.func(*(_replaced(part, by) for part in expr.args)) if isinstance(expr, (sympy.Add, sympy.Mul)) else expr


def _first(expr: Any) -> Cases:
    """Return the first branch as it stands."""
    if not isinstance(expr, sympy.Piecewise):
        return Cases(expr)
    parts: list[tuple[Any, Any]] = [arguments(part) for part in arguments(expr)]  # pyright: ignore[reportAssignmentType]
    (value, condition), *others = parts
    if condition == True:  # noqa: E712 - sympy's own
        return Cases(value)
    rest: Any = None
    if others:
        rest = others[0][0] if others[0][1] == True else _sympy.Piecewise(*others, evaluate=False)  # noqa: E712
    return Cases(value, condition, rest)


def _multiples(condition: Any) -> dict[Any, int] | None:
    """Return the multiple of each length; None for another condition."""
    found: dict[Any, int] = {}
    for part in arguments(condition) if isinstance(condition, sympy.And) else (condition,):
        remainder, nothing = arguments(part) if isinstance(part, sympy.Eq) else (None, None)
        if nothing != 0 or not isinstance(remainder, sympy.Mod):
            return None
        value, divisor = arguments(remainder)
        number, length = value.as_coeff_Mul()
        if not divisor.is_Integer or not number.is_Rational or number.p != 1 or not length.free_symbols:
            return None
        found[length] = lcm(found.get(length, 1), int(divisor) * int(number.q))  # n/8 is even where n is a multiple of 16
    return found
