"""Prove from the bounds of symbols that an expression is never negative.

This proves inequalities.

A proof replaces one atom after another by a bound that makes the whole smaller. It ends where only non-negative terms
are left. No proof means "unknown", never "false".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from fractions import Fraction
from functools import lru_cache

from ioaware.analysis.ir.algebra.constant_bounds import atom_lower_bound, constant_lower_bound
from ioaware.analysis.ir.algebra.counterexamples import has_counterexample
from ioaware.analysis.ir.algebra.division import plain_floor_div
from ioaware.analysis.ir.algebra.poly import (
    Atom,
    Choice,
    Extreme,
    Floor,
    Poly,
    Symbol,
    Test,
    poly,
)

DEPTH = 5
CACHED = 20_000

# Depth limit of a nested proof. Each step sets it from its own depth alone. So a result depends only on the question, and not
# on earlier questions.
_allowed: ContextVar[int] = ContextVar("_allowed", default=100)


def nonnegative(value: Poly, depth: int = DEPTH) -> bool:
    """Prove `value` >= 0 with at most `depth` replacements; False means not proven."""
    return _prove(value, min(depth, _allowed.get()))


def positive(value: Poly) -> bool:
    """Prove that the integer `value` is at least 1; False means not proven."""
    return nonnegative(value - 1)


@lru_cache(maxsize=CACHED)
def _prove(value: Poly, depth: int) -> bool:
    constant = value.constant
    if constant is not None:
        return constant >= 0
    low = constant_lower_bound(value)
    if low is not None and low >= 0:
        return True
    if depth == 0 or len(value.terms) > 24 or has_counterexample(value):
        return False
    token = _allowed.set(max(1, depth - 2))
    try:
        ordered = _without_ordered_floors(value)
        if ordered is not value:
            return _prove(ordered, depth - 1)
        return any(_prove_by(value, atom, depth) for atom in sorted(value.atoms, key=_rank))
    finally:
        _allowed.reset(token)


def _rank(atom: Atom) -> tuple[int, str]:
    """Order atoms for replacement: indices first, choices last.

    Indices come before the floors that bound them.
    """
    return _ORDER.get(type(atom), 4), atom.key


_ORDER: Mapping[type[Atom], int] = {Symbol: 0, Extreme: 1, Floor: 2, Choice: 3}


def _without_ordered_floors(value: Poly) -> Poly:
    """Drop c (floor(x/d) - floor(y/d)) where x >= y and c >= 0."""
    floors = [(atom, value.terms[(atom,)]) for (atom,) in (m for m in value.terms if len(m) == 1) if isinstance(atom, Floor)]
    for upper, c in floors:
        for lower, negative in floors:
            if (
                c > 0 > negative
                and upper.denominator == lower.denominator
                and constant_lower_bound(upper.denominator) is not None
                and constant_lower_bound(upper.numerator - lower.numerator) is not None
                and nonnegative(upper.numerator - lower.numerator)
            ):
                shared = min(c, -negative)
                return value - poly(upper) * shared + poly(lower) * shared
    return value


def _prove_by(value: Poly, atom: Atom, depth: int) -> bool:
    """Prove `value` >= 0 by replacing `atom` by one of its bounds."""
    sign = _sign_of_factor(value, atom)
    if sign is None:
        return False

    def with_bound(bound: Poly) -> bool:
        return _prove(replace_atom(value, atom, bound), depth - 1)

    match atom:
        case Symbol():
            bound = atom.lower if sign > 0 else atom.upper
            return bound is not None and with_bound(bound)
        case Floor():
            if _prove_floor_alone(value, atom, depth):
                return True
            divisor = atom.denominator.constant
            if divisor is None or divisor <= 0:
                if sign < 0 and _prove_floor_below(value, atom, depth):
                    return True
                return _prove_by_product(value, atom, sign, depth) or (sign < 0 and _prove_by_range(value, atom, depth))
            if _prove_by_finer_floor(value, atom, int(divisor), sign, depth):
                return True
            numerator = atom.numerator - (divisor - 1 if sign > 0 else 0)
            return with_bound(numerator * Fraction(1, int(divisor)))
        case Extreme():
            enough: Callable[..., bool] = any if atom.least == (sign < 0) else all
            return enough(with_bound(arg) for arg in atom.args)
        case Choice():
            return with_bound(atom.then) and with_bound(atom.other)
        case Test():
            return sign < 0 and with_bound(poly(1))
        case _:
            return False


def _prove_floor_alone(value: Poly, atom: Floor, depth: int) -> bool:
    """Prove c floor(n / d) + k >= 0 as n >= m d with m = ceil(-k / c)."""
    constant, coefficient = value.terms.get((), 0), value.terms.get((atom,), 0)
    if coefficient <= 0 or len(value.terms) > (2 if constant else 1):
        return False
    least = -((constant / Fraction(coefficient)).__floor__())
    return positive(atom.denominator) and _prove(atom.numerator - least * atom.denominator, depth - 1)


def _prove_floor_below(value: Poly, atom: Floor, depth: int) -> bool:
    """Prove r - c floor(n / d) >= 0 as n <= (m + 1) d - 1 with m = floor(r / c)."""
    coefficient = -value.terms.get((atom,), 0)
    rest = value + poly(atom) * coefficient
    whole = all(isinstance(c, int) for c in value.terms.values())
    if not whole or coefficient <= 0 or atom.key in rest.key or not positive(atom.denominator):
        return False
    most = plain_floor_div(rest, poly(coefficient))
    return _prove((most + 1) * atom.denominator - 1 - atom.numerator, depth - 1)


def _prove_by_finer_floor(value: Poly, atom: Floor, divisor: int, sign: int, depth: int) -> bool:
    """Bound floor(n / (k d)) by floor(floor(n / d) / k).

    A floor by d is kept beside it.
    """
    for other in value.atoms:
        finer = other.denominator.constant if isinstance(other, Floor) else None
        if finer is not None and 1 < finer < divisor and divisor % finer == 0:
            times = divisor // int(finer)
            inner = plain_floor_div(atom.numerator, poly(finer)) - (times - 1 if sign > 0 else 0)
            return _prove(replace_atom(value, atom, inner * Fraction(1, times)), depth - 1)
    return False


def _prove_by_range(value: Poly, atom: Floor, depth: int) -> bool:
    """Bound a floor by replacing an index of its numerator by the index's upper bound."""
    for index in atom.numerator.atoms:
        if isinstance(index, Symbol) and index.upper is not None and atom.numerator.terms.get((index,), 0) > 0:
            if any(index in factors for factors in atom.numerator.terms if factors != (index,)):
                continue
            bound = plain_floor_div(replace_atom(atom.numerator, index, index.upper), atom.denominator)
            return positive(atom.denominator) and _prove(replace_atom(value, atom, bound), depth - 1)
    return False


def _prove_by_product(value: Poly, atom: Floor, sign: int, depth: int) -> bool:
    """Bound x - d floor(x/d) by 0 .. d - 1, for a divisor d of one term."""
    divisor = atom.denominator
    if len(divisor.terms) != 1 or not positive(divisor):
        return False
    ((factors, scale),) = divisor.terms.items()
    both = tuple(sorted((*factors, atom), key=lambda a: a.key))
    coefficient = value.terms.get(both)
    if coefficient is None or any(atom in m for m in value.terms if m != both):
        return False
    bound = atom.numerator - (divisor - 1 if sign > 0 else 0)
    rest = Poly({m: c for m, c in value.terms.items() if m != both})
    return _prove(rest + bound * Fraction(coefficient, int(scale)), depth - 1)


def _sign_of_factor(value: Poly, atom: Atom) -> int | None:
    """Return the sign of the factor of `atom`, where its terms agree.

    Their other factors must never be negative.
    """
    signs: set[int] = set()
    for monomial, coefficient in value.terms.items():
        if atom in monomial:
            others = [other for other in monomial if other != atom]
            if len(others) != len(monomial) - 1 or not all(map(_never_negative, others)):
                return None
            signs.add(1 if coefficient > 0 else -1)
    return signs.pop() if len(signs) == 1 else None


def _never_negative(atom: Atom) -> bool:
    low = atom_lower_bound(atom)
    if low is not None:
        return low >= 0
    return isinstance(atom, (Extreme, Floor, Choice)) and nonnegative(poly(atom))


def replace_atom(value: Poly, atom: Atom, by: Poly) -> Poly:
    """Replace the factor `atom`, which appears to the first power."""
    kept = Poly({m: c for m, c in value.terms.items() if atom not in m})
    moved = Poly({tuple(a for a in m if a != atom): c for m, c in value.terms.items() if atom in m})
    return kept + moved * by
