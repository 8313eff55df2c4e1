"""Bound expressions by symbolic intervals.

An interval is the smallest and largest value over all indices.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from ioaware.analysis.ir.algebra.constructors import floor_div, greatest, least
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Atom, Choice, Extreme, Floor, Poly, Symbol, Test, poly
from ioaware.analysis.ir.algebra.prover import nonnegative, positive

Interval: TypeAlias = tuple[Poly, Poly]
"""Lower and upper end, both included, in the parameters alone.

Every value lies between; the ends may not be reached.
"""
DEEPEST = 12


def interval(value: Poly) -> Interval | None:
    """Return bounds of an expression over its indices.

    None where it contains an unknown or a sum.
    """
    return _interval(value, DEEPEST)


@lru_cache(maxsize=20_000)
def _interval(value: Poly, depth: int) -> Interval | None:
    low, high = ZERO, ZERO
    for factors, coefficient in value.terms.items():
        ends = _product(factors, depth)
        if ends is None:
            return None
        small, large = ends if coefficient > 0 else ends[::-1]
        low, high = low + small * coefficient, high + large * coefficient
    return low, high


def _product(factors: tuple[Atom, ...], depth: int) -> Interval | None:
    """Return bounds of a product.

    At most one factor may be negative, and the others are not.
    """
    low, high = ONE, ONE
    signed: Interval | None = None
    for atom in factors:
        ends = _atom(atom, depth)
        if ends is None:
            return None
        if nonnegative(ends[0]):
            low, high = low * ends[0], high * ends[1]
        elif signed is None:
            signed = ends
        else:
            return None
    if signed is None:
        return low, high
    below = signed[0] * (high if nonnegative(-signed[0]) else low)
    above = signed[1] * (high if nonnegative(signed[1]) else low)
    mixed = not nonnegative(-signed[0]) or not (nonnegative(signed[1]) or nonnegative(-signed[1]))
    return None if mixed and low != high else (below, above)


@lru_cache(maxsize=20_000)
def _atom(atom: Atom, depth: int) -> Interval | None:
    if depth == 0:
        return None
    match atom:
        case Symbol():
            return _symbol(atom, depth)
        case Test():
            return ZERO, ONE
        case Extreme():
            ends = [_interval(arg, depth - 1) for arg in atom.args]
            known = [end for end in ends if end is not None]
            make: Callable[..., Poly] = least if atom.least else greatest
            return (make(*(low for low, _ in known)), make(*(high for _, high in known))) if len(known) == len(ends) else None
        case Choice():
            then, other = _interval(atom.then, depth - 1), _interval(atom.other, depth - 1)
            return None if then is None or other is None else (least(then[0], other[0]), greatest(then[1], other[1]))
        case Floor():
            return _floor(atom, depth)
        case _:
            return None


def _symbol(symbol: Symbol, depth: int) -> Interval | None:
    if symbol.upper is None:
        return poly(symbol), poly(symbol)  # a parameter
    low = _interval(symbol.lower, depth - 1) if symbol.lower is not None else None
    high = _interval(symbol.upper, depth - 1)
    return None if low is None or high is None else (low[0], high[1])


def _floor(atom: Floor, depth: int) -> Interval | None:
    numerator, divisor = _interval(atom.numerator, depth - 1), _interval(atom.denominator, depth - 1)
    if numerator is None or divisor is None or not positive(divisor[0]):
        return None
    if divisor[0] == divisor[1]:
        return floor_div(numerator[0], divisor[0]), floor_div(numerator[1], divisor[0])
    if nonnegative(numerator[0]):
        return ZERO, floor_div(numerator[1], divisor[0])
    return None


__all__ = ["Interval", "interval"]
