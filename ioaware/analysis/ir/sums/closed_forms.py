"""Close single sums: powers of the index, and tiles that cover a length."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import comb

from ioaware.analysis.ir.algebra.constructors import greatest, least
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Atom, Coefficient, Extreme, Monomial, Poly, Symbol
from ioaware.analysis.ir.algebra.prover import nonnegative


def extent(low: Poly, high: Poly) -> Poly:
    """Return the number of integers from low to high, exclusive."""
    return greatest(ZERO, high - low)


def linear(value: Poly, index: Symbol) -> tuple[Poly, Poly] | None:
    """Return (a, b) with value = a index + b, neither varying with the index.

    Else None.
    """
    slope: dict[Monomial, Coefficient] = {}
    rest: dict[Monomial, Coefficient] = {}
    for factors, coefficient in value.terms.items():
        inside = [atom for atom in factors if index.key in atom.free]
        if not inside:
            rest[factors] = coefficient
        elif inside == [index]:
            slope[tuple(atom for atom in factors if atom != index)] = coefficient
        else:
            return None
    return Poly(slope), Poly(rest)


def power_sum(power: int, low: Poly, high: Poly) -> Poly:
    """Return the sum of index**power, low <= high.

    It is by Faulhaber's polynomial at both ends.
    """
    coefficients = _faulhaber(power)

    def at(end: Poly) -> Poly:
        result, running = ZERO, ONE
        for coefficient in coefficients:
            result, running = result + running * coefficient, running * end
        return result

    return at(high) - at(low)


@lru_cache(maxsize=16)
def _faulhaber(power: int) -> tuple[Fraction, ...]:
    """Return the coefficients of S with S(n) = 0**p + 1**p + .. + (n - 1)**p.

    They follow from S(n + 1) - S(n) = n**p.
    """
    left = [Fraction(0)] * power + [Fraction(1)]
    found = [Fraction(0)] * (power + 2)
    for degree in range(power, -1, -1):
        found[degree + 1] = left[degree] / (degree + 1)
        for lower in range(degree + 1):
            left[lower] -= found[degree + 1] * comb(degree + 1, lower)
    return tuple(found)


def tiles(factors: Monomial, index: Symbol, low: Poly, high: Poly) -> Poly | None:
    """Sum tiles of size c.

    The identity is sum max(0, min(c, A - c index)) = max(0, min(c (high - low), A - c low)).
    """
    if len(factors) != 1 or not isinstance(factors[0], Extreme):
        return None
    outer = factors[0]
    clipped = not outer.least
    tile: Atom | None = outer
    if clipped:
        others = [arg for arg in outer.args if arg != ZERO]
        if len(others) != 1 or len(outer.args) != 2:
            return None
        tile = others[0].atom
    if not isinstance(tile, Extreme) or not tile.least:
        return None
    moving = [arg for arg in tile.args if index.key in arg.free]
    if len(moving) != 1:
        return None
    found = linear(moving[0], index)
    size = least(*(arg for arg in tile.args if arg is not moving[0]))
    if found is None or not nonnegative(size):
        return None
    slope, offset = found
    high = greatest(low, high)
    if slope == size:  # ascending tiles: count the index from the other end
        slope, offset = -slope, offset + slope * (low + high - 1)
    if slope != -size:
        return None
    if not clipped and not nonnegative(offset + slope * (high - 1)) and not nonnegative(moving[0]):
        return None
    return greatest(ZERO, least(size * (high - low), offset + slope * low))


def one_tile(body: Poly, index: Symbol, low: Poly, high: Poly) -> Poly | None:
    """Sum A - c index, known to lie between 0 and c.

    It is the remainder of a length after its whole tiles.
    """
    found = linear(body, index)
    if found is None or not nonnegative(-found[0]) or not nonnegative(body) or not nonnegative(-found[0] - body):
        return None
    slope, offset = found
    high = greatest(low, high)
    return greatest(ZERO, least(-slope * (high - low), offset + slope * low))
