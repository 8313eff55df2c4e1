"""Prove that a term has symbol and index only as `symbol - step index`.

It depends on them in no other way.

The sums of many lengths are then differences of one table of cumulative sums. Proof: the term is unchanged where the index
grows by one and the symbol by `step`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, cast

import sympy


def shift(term: Any, index: str) -> tuple[str, int] | None:
    """Return the symbol's name and the step, at least 1.

    None where the form is not proven.
    """
    for symbol, step in dict.fromkeys(_candidates(term, index)):
        if _change(term, {index: 1, symbol: step}) == 0:
            return symbol, step
    return None


def _candidates(expr: Any, index: str) -> Iterator[tuple[str, int]]:
    """Yield (symbol, step) from the sums in which index and symbol stand.

    Roundings are ignored.
    """
    if isinstance(expr, sympy.Add):
        slopes = _slopes(expr)
        moving = slopes.pop(index, Fraction(0))
        for symbol, slope in slopes.items():
            step = -moving / slope if slope else Fraction(0)
            if step.denominator == 1 and step > 0:
                yield symbol, int(step)
    for part in expr.args:
        yield from _candidates(part, index)


def _slopes(expr: Any) -> dict[str, Fraction]:
    """Return the coefficients of symbols, including those inside roundings."""
    match expr:
        case sympy.Symbol():
            return {str(expr): Fraction(1)}
        case sympy.floor() | sympy.ceiling():
            return _slopes(expr.args[0])
        case sympy.Mul():
            factor, rest = _times(expr)
            return {symbol: factor * slope for symbol, slope in _slopes(rest).items()} if factor != 1 else {}
        case sympy.Add():
            found: dict[str, Fraction] = {}
            for part in expr.args:
                for symbol, slope in _slopes(part).items():
                    found[symbol] = found.get(symbol, Fraction(0)) + slope
            return found
        case _:
            return {}


def _change(expr: Any, by: Mapping[str, int]) -> Fraction | None:
    """Return the growth of an expression where symbols grow by `by`.

    None where it depends on their values.
    """
    if isinstance(expr, sympy.Symbol):
        return Fraction(by.get(str(expr), 0))
    changes = [_change(part, by) for part in expr.args]
    if all(change == 0 for change in changes):
        return Fraction(0)
    if any(change is None for change in changes):
        return None
    known = cast("list[Fraction]", changes)
    whole = known[0].denominator == 1
    match expr:
        case sympy.Add():
            return sum(known, Fraction(0))
        case sympy.Mul():
            factor, rest = _times(expr)
            change = _change(rest, by) if factor != 1 else None
            return None if change is None else factor * change
        case sympy.floor() | sympy.ceiling():
            return known[0] if whole else None
        case sympy.Max() | sympy.Min():
            return known[0] if len(set(known)) == 1 else None
        case sympy.Mod():
            modulus: Any = expr.args[1]
            return Fraction(0) if modulus.is_Integer and whole and known[0] % int(modulus) == 0 else None
        case _:
            return None


def _times(expr: Any) -> tuple[Fraction, Any]:
    """Split into a number and the factor behind it."""
    factor, rest = expr.as_coeff_Mul()
    return Fraction(int(factor.p), int(factor.q)), rest
