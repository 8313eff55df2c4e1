"""Divide polynomials without proofs: exact quotients, and reduced floors.

Floors are reduced by common factors alone.
"""

from __future__ import annotations

from math import gcd

from ioaware.analysis.ir.algebra.constant_bounds import constant_lower_bound
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Coefficient, Floor, Monomial, Poly, poly


def divide(a: Poly, b: Poly) -> tuple[Poly, Poly]:
    """Return the terms of `a` divided by a one-term divisor `b`, and the rest.

    The terms are those that `b` divides.
    """
    if len(b.terms) != 1:
        return (ONE, ZERO) if a == b else (-ONE, ZERO) if a == -b else (ZERO, a)
    ((factors, scale),) = b.terms.items()
    quotient: dict[Monomial, Coefficient] = {}
    rest: dict[Monomial, Coefficient] = {}
    for monomial, coefficient in a.terms.items():
        left = monomial_quotient(monomial, factors)
        if left is not None and isinstance(coefficient, int) and coefficient % scale == 0:
            quotient[left] = int(coefficient // scale)
        else:
            rest[monomial] = coefficient
    return Poly(quotient), Poly(rest)


def monomial_quotient(monomial: Monomial, factors: Monomial) -> Monomial | None:
    """Return the monomial divided by these factors; None where one is missing."""
    left = list(monomial)
    for factor in factors:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


def divide_by_constant(a: Poly, b: int) -> tuple[Poly, Poly] | None:
    """Return (quotient, rest) with a = b quotient + rest.

    The rest's coefficients are in 0 .. b - 1.

    None where a coefficient of `a` is a fraction. A constant goes to the quotient as far as it fits.
    """
    quotient: dict[Monomial, Coefficient] = {}
    rest: dict[Monomial, Coefficient] = {}
    for monomial, coefficient in a.terms.items():
        if not isinstance(coefficient, int):
            return None
        whole, left = divmod(coefficient, b)
        if monomial and left:
            rest[monomial] = coefficient
        else:
            if whole:
                quotient[monomial] = whole
            if left:
                rest[monomial] = left
    return Poly(quotient), Poly(rest)


def _floor_of_rest(rest: Poly, b: Poly) -> Poly | None:
    """Return floor(rest / b) where constant bounds place it at 0 or -1; else None."""
    if not _never_negative(b - 1):
        return None
    if _never_negative(rest) and _never_negative(b - 1 - rest):
        return ZERO
    return -ONE if _never_negative(-rest - 1) and _never_negative(b + rest) else None


def _floor_by_shared_factors(a: Poly, b: Poly) -> Poly | None:
    """Return floor((c x + r) / (k x)) as floor(c / k) or floor((c - 1) / k).

    Bounds must place r in -x .. x - 1.
    """
    ((factors, scale),) = b.terms.items() if len(b.terms) == 1 else (((), 1),)
    shared = Poly({factors: 1})
    quotient, rest = divide(a, shared)
    if scale == 1 or not quotient.terms:
        return None
    place = _floor_of_rest(rest, shared)
    return None if place is None else plain_floor_div(quotient + place, poly(scale))


def _never_negative(value: Poly) -> bool:
    low = constant_lower_bound(value)
    return low is not None and low >= 0


def plain_floor_div(a: Poly, b: Poly) -> Poly:
    """Return floor(a / b), b not 0, with exact quotients taken out.

    There is no other rewriting.

    The prover builds its bounds with this function, so that no proof depends on another proof's normal form.
    """
    divisor = b.constant
    if divisor is None:
        by_factors = _floor_by_shared_factors(a, b)
        if by_factors is not None:
            return by_factors
        quotient, rest = divide(a, b)
        known = _floor_of_rest(rest, b)
        return quotient + (known if known is not None else poly(Floor(rest, b)))
    if divisor < 0:
        a, divisor = -a, -divisor
    parts = divide_by_constant(a, int(divisor))
    if parts is None:
        return poly(Floor(a, poly(divisor)))
    quotient, rest = parts
    if not any(rest.terms):
        return quotient  # the rest is a constant between 0 and the divisor
    common = gcd(int(divisor), *(int(c) for monomial, c in rest.terms.items() if monomial))
    if common > 1:
        reduced = Poly({m: int(c) // common for m, c in rest.terms.items() if m or int(c) // common})
        return quotient + plain_floor_div(reduced, poly(int(divisor) // common))
    return quotient + poly(Floor(rest, poly(divisor)))
