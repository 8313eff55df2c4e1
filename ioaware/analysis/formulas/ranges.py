"""Simplify formulas within symbol ranges.

Minima and maxima that ranges decide are resolved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import sympy
from sympy import Expr, Symbol

from ioaware.analysis.formulas.common_parts import Substitution, operations, parts_of
from ioaware.analysis.formulas.functions import Holds, arguments

_sympy: Any = sympy
Range: TypeAlias = tuple[int | None, int | None]
"""Smallest and largest value of a symbol; None where there is no end."""


def ranges(relations: Iterable[Any]) -> dict[Symbol, Range]:
    """Return the range of each symbol from relations linear in one integer symbol.

    Others are skipped.

    Symbols are at least 1.
    """
    found: dict[Symbol, Range] = {}
    for relation in relations:
        for symbol, (low, high) in _solved(relation):
            known_low, known_high = found.get(symbol, (1, None))
            lows = [value for value in (known_low, low) if value is not None]
            highs = [value for value in (known_high, high) if value is not None]
            found[symbol] = (max(lows, default=None), min(highs, default=None))
    return found


def _solved(relation: Any) -> Iterable[tuple[Symbol, Range]]:
    if not isinstance(relation, (sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge)):
        return
    left, right = arguments(relation)
    below: Any = left - right if isinstance(relation, (sympy.Lt, sympy.Le)) else right - left  # <= 0, or < 0
    slope, symbol, constant = _line(below) or (0, None, 0)
    if symbol is None:
        return
    end: Any = -constant / slope
    strict = isinstance(relation, (sympy.Lt, sympy.Gt))
    if slope > 0:
        yield symbol, (None, int(_sympy.ceiling(end)) - 1 if strict else int(_sympy.floor(end)))
    else:
        yield symbol, (int(_sympy.floor(end)) + 1 if strict else int(_sympy.ceiling(end)), None)


def _line(expr: Any) -> tuple[Any, Symbol, Any] | None:
    """Return (a, x, b) of a*x + b with rational a and b; None for anything else."""
    names = expr.free_symbols
    if len(names) != 1:
        return None
    (symbol,) = names
    constant = expr.xreplace({symbol: sympy.S.Zero}) if expr.is_polynomial(symbol) else None
    if constant is None:
        return None
    rest: Any = _sympy.expand(expr - constant)
    slope = rest / symbol
    return (slope, symbol, constant) if slope.is_Rational and constant.is_Rational else None


def implied(relation: Any, known: Mapping[Symbol, Range]) -> bool:
    """Return whether a relation holds for all values in the ranges.

    False where that is unknown.
    """
    if relation in (sympy.true, sympy.false) or not isinstance(relation, (sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge)):
        return relation == sympy.true
    small, large = arguments(relation) if isinstance(relation, (sympy.Lt, sympy.Le)) else arguments(relation)[::-1]
    return _at_most(small + 1 if isinstance(relation, (sympy.Lt, sympy.Gt)) else small, large, known)


def restrict(expr: Expr, known: Mapping[Symbol, Range]) -> Expr:
    """Return the formula for symbols in these ranges.

    Min, Max and [x >= 0] are resolved where possible.
    """
    if not known:
        return expr
    whole: Any = expr
    within = tuple(known.items())
    while True:  # innermost first: a resolved one may decide another
        wanted = sorted(parts_of(whole, sympy.Min, sympy.Max, Holds), key=operations)
        outcomes = ((node, _decided(node, within)) for node in wanted)
        node, outcome = next((pair for pair in outcomes if pair[0] != pair[1]), (None, None))
        if node is None:
            return whole
        whole = Substitution({node: outcome})(whole)


@lru_cache(maxsize=4096)
def _decided(node: Any, within: tuple[tuple[Symbol, Range], ...]) -> Any:
    """Return a Min or Max without useless arguments, [x >= 0] as 0 or 1.

    Unchanged where unknown.
    """
    known = dict(within)
    if isinstance(node, Holds):
        (value,) = node.args
        if _at_most(sympy.S.Zero, value, known):
            return sympy.S.One
        return sympy.S.Zero if _at_most(value, sympy.Integer(-1), known) else node
    arguments: tuple[Any, ...] = node.args
    kept: list[Any] = []
    for at, one in enumerate(arguments):
        rivals = (*kept, *arguments[at + 1 :])
        if isinstance(node, sympy.Min):
            needless = any(_at_most(rival, one, known) for rival in rivals)
        else:
            needless = any(_at_most(one, rival, known) for rival in rivals)
        if not needless:
            kept.append(one)
    kind: Any = node.func
    return node if len(kept) == len(arguments) else kind(*kept)


def _at_most(one: Any, other: Any, known: Mapping[Symbol, Range]) -> bool:
    """Return whether one <= other for all values in the ranges."""
    high = _interval(_without_ceilings(one - other), known)[1]
    return high is not None and bool(high <= 0)


def _without_ceilings(difference: Any) -> Any:
    """Return a - b + n for ceil(a) - ceil(b) + n with an integer n.

    If it is <= 0, so is the original.
    """
    terms = _sympy.Add.make_args(difference)
    ups = [term for term in terms if isinstance(term, sympy.ceiling)]
    downs = [-term for term in terms if isinstance(-term, sympy.ceiling)]
    rest = [term for term in terms if not isinstance(term, sympy.ceiling) and not isinstance(-term, sympy.ceiling)]
    if len(ups) == len(downs) == 1 and all(term.is_Integer for term in rest):
        return _sympy.expand(ups[0].args[0] - downs[0].args[0] + _sympy.Add(*rest))
    return difference


def _interval(expr: Any, known: Mapping[Symbol, Range]) -> tuple[Any, Any]:
    """Return the smallest and largest value of an expression by interval arithmetic.

    None for no end.
    """
    if expr.is_Rational:
        return expr, expr
    if isinstance(expr, Symbol):
        return known.get(expr, (None, None))
    if isinstance(expr, sympy.Mul):
        return _product(expr, known)
    parts = [_interval(part, known) for part in expr.args]
    lows, highs = [low for low, _ in parts], [high for _, high in parts]
    if isinstance(expr, sympy.Add):
        return _each(_sympy.Add, lows), _each(_sympy.Add, highs)
    if isinstance(expr, (sympy.ceiling, sympy.floor)):
        return _each(expr.func, lows), _each(expr.func, highs)
    if isinstance(expr, sympy.Pow) and expr.exp.is_Integer and expr.exp > 0 and lows[0] is not None and lows[0] >= 0:
        return lows[0] ** expr.exp, None if highs[0] is None else highs[0] ** expr.exp
    return None, None


def _product(expr: Any, known: Mapping[Symbol, Range]) -> tuple[Any, Any]:
    """Return the interval of a number times the rest, or of non-negative factors."""
    factor, rest = expr.as_coeff_Mul()
    if factor != 1:
        low, high = (None if end is None else factor * end for end in _interval(rest, known))
        return (low, high) if factor > 0 else (high, low)
    parts = [_interval(part, known) for part in expr.args]
    lows, highs = [low for low, _ in parts], [high for _, high in parts]
    if all(low is not None and low >= 0 for low in lows):
        return _each(_sympy.Mul, lows), _each(_sympy.Mul, highs)
    return None, None


def _each(function: Any, ends: list[Any]) -> Any:
    return None if None in ends else function(*ends)
