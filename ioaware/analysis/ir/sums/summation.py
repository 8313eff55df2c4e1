"""Close sums: clipped ranges, tiles, triangles, and splits.

Splits are where a minimum switches.

Every rule is an identity of integers for any bounds. A sum that no rule closes stays a sum, evaluated exactly later.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm

from ioaware.analysis.ir.algebra.constructors import floor_div, greatest, least, substitute
from ioaware.analysis.ir.algebra.division import monomial_quotient
from ioaware.analysis.ir.algebra.poly import (
    ONE,
    ZERO,
    Choice,
    Coefficient,
    Extreme,
    Floor,
    Monomial,
    Poly,
    Sum,
    Symbol,
    Test,
    monomial,
    parts,
    poly,
    total,
    whole,
)
from ioaware.analysis.ir.algebra.predicates import at_least_zero, resolve_tests
from ioaware.analysis.ir.algebra.prover import nonnegative, positive
from ioaware.analysis.ir.algebra.simplify import simplify, size
from ioaware.analysis.ir.sums.closed_forms import extent, linear, one_tile, power_sum, tiles
from ioaware.analysis.ir.sums.reindex import join_two, rotate, split_into_digits

READABLE, LONGER = 25, 2  # a closed form with more parts than both is not used: this number, and this multiple of its sum's
MAX_SPLITS = 5
LARGEST_CUT = 100  # most parts of a body that is split
FEW = 4  # most iterations that are unrolled


@lru_cache(maxsize=8192)
def sum_over(body: Poly, index: Symbol, low: Poly, high: Poly, splits: int = MAX_SPLITS) -> Poly:
    """Return the sum of `body` for index = low .. high - 1, 0 where high <= low."""
    body = resolve_tests(body)
    if index.key not in body.free:
        return body * extent(low, high)
    turn = rotate(body, index, low, high)
    if turn is not None:
        moved, remainder, length, times = turn
        return times * sum_over(moved, remainder, ZERO, length, splits)
    periodic = _periodic(body, index, low, high)
    if periodic is not None:
        return periodic
    for digits in split_into_digits(body, index, low, high):
        turned_over = join_two(digits.body, digits.tens, digits.quotient, digits.ones, digits.length) if digits.exact else None
        if turned_over is not None:  # the digits in reverse order are one index again
            return sum_over(*turned_over, ZERO, digits.quotient * digits.length, splits)
        inner = sum_over(digits.body, digits.ones, ZERO, digits.length, splits)
        result = sum_over(inner, digits.tens, ZERO, digits.quotient, splits)
        if digits.exact or not has_sum(result):
            return result
    remainder = one_tile(body, index, low, high)
    if remainder is not None:
        return remainder
    groups: dict[Monomial, dict[Monomial, Coefficient]] = {}
    for factors, coefficient in body.terms.items():
        inside = tuple(atom for atom in factors if index.key in atom.free)
        outside = tuple(atom for atom in factors if index.key not in atom.free)
        groups.setdefault(inside, {})[outside] = coefficient
    sums = {inside: _sum_product(inside, index, low, high, splits) for inside in groups}
    closed = {inside: value for inside, value in sums.items() if not has_sum(value)}
    open_terms = total(Poly(outside) * monomial(inside) for inside, outside in groups.items() if inside not in closed)
    result = total(Poly(groups[inside]) * value for inside, value in closed.items())
    if open_terms.terms:
        rest = _left(open_terms, index, low, high)
        parted = _parted(open_terms, index, low, high, splits - 1) if splits and size(open_terms) <= LARGEST_CUT else None
        result = result + (parted if parted is not None and size(parted) < size(rest) else rest)
    result = simplify(result)
    plain = _left(body, index, low, high)
    return plain if size(result) > max(READABLE, LONGER * size(plain)) else result


def _periodic(body: Poly, index: Symbol, low: Poly, high: Poly) -> Poly | None:
    """Sum a term that occurs at one remainder r by L.

    For an index from 0 to n it occurs floor((n + L - 1 - r)/L) times.
    """
    result = ZERO
    for factors, coefficient in body.terms.items():
        moving = [atom for atom in factors if index.key in atom.free]
        still = monomial(tuple(atom for atom in factors if index.key not in atom.free), coefficient)
        if not moving:
            result = result + still * extent(low, high)
            continue
        (atom, *more) = moving
        test = atom.condition.atom if isinstance(atom, Choice) else atom
        found = _remainder(test, index) if isinstance(test, Test) and test.equal and not more and not low.terms else None
        if found is None or (isinstance(atom, Choice) and index.key in atom.then.free | atom.other.free):
            return None
        length, remainder = found
        times = floor_div(greatest(ZERO, high) + length - 1 - remainder, length)
        each = atom.then - atom.other if isinstance(atom, Choice) else ONE
        rest = atom.other * extent(low, high) if isinstance(atom, Choice) else ZERO
        result = result + still * (each * times + rest)
    return result


def _remainder(test: Test, index: Symbol) -> tuple[Poly, Poly] | None:
    """Return L and r of a test that index mod L == r, 0 <= r < L; else None."""
    for floor in (atom for atom in test.value.atoms if isinstance(atom, Floor) and atom.numerator == poly(index)):
        length = floor.denominator
        turned_over = poly(index) - length * poly(floor)
        for remainder in (turned_over - test.value, turned_over + test.value):
            if index.key not in remainder.free | length.free and nonnegative(remainder) and nonnegative(length - remainder - 1):
                return length, remainder
    return None


def _parted(body: Poly, index: Symbol, low: Poly, high: Poly, splits: int) -> Poly | None:
    """Split the range where a choice inside switches; unroll a range of a few indices."""
    few = (high - low).constant
    if few is not None and 0 < few <= FEW and _turning(body, index) is not None:
        return total(sum_over(substitute(body, {index.key: low + at}), index, low, low + 1) for at in range(int(few)))
    test = _turning(body, index)
    found = linear(test.value, index) if test is not None and not test.equal else None
    if found is None:
        return None
    slope, offset = found
    if positive(slope):
        cut = -floor_div(offset, slope)
    elif positive(-slope):
        cut = floor_div(offset, -slope) + 1
    else:
        return None
    middle = least(greatest(low, cut), greatest(low, high))
    return _narrowed(body, index, low, middle, splits) + _narrowed(body, index, middle, high, splits)


def _turning(value: Poly, index: Symbol) -> Test | None:
    """Return a test of the index that a choice depends on."""
    for atom in sorted(value.atoms, key=lambda atom: atom.key):
        if index.key not in atom.free:
            continue
        tests = [a for a in atom.condition.atoms if isinstance(a, Test)] if isinstance(atom, Choice) else []
        found = next((test for test in sorted(tests, key=lambda a: a.key) if index.key in test.free), None)
        inside = (_turning(part, index) for part in parts(atom))
        found = found or next((test for test in inside if test is not None), None)
        if found is not None:
            return found
    return None


def _left(body: Poly, index: Symbol, low: Poly, high: Poly) -> Poly:
    """Return the unevaluated sum, with constant terms and common factors moved out."""
    still = Poly({m: c for m, c in body.terms.items() if all(index.key not in atom.free for atom in m)})
    moving = body - still
    shared = [
        atom for atom in dict.fromkeys(next(iter(moving.terms)))
        if index.key not in atom.free and all(atom in factors for factors in moving.terms)
    ]  # fmt: skip
    coefficients = [Fraction(c) for c in moving.terms.values()]
    common = Fraction(gcd(*(c.numerator for c in coefficients)), lcm(*(c.denominator for c in coefficients)))
    common = -common if all(c < 0 for c in coefficients) else common
    inner = Poly({monomial_quotient(m, tuple(shared)) or (): whole(Fraction(c) / common) for m, c in moving.terms.items()})
    return still * extent(low, high) + monomial(tuple(shared), whole(common)) * poly(Sum(inner, index, low, high))


def _sum_product(factors: Monomial, index: Symbol, low: Poly, high: Poly, splits: int) -> Poly:
    """Return the sum of a product of atoms that all vary with the index."""
    if not factors:
        return extent(low, high)
    for at, atom in enumerate(factors):
        rest = monomial(factors[:at] + factors[at + 1 :])
        if isinstance(atom, Test):
            clipped = _clip(atom, rest, index, low, high, splits)
            if clipped is not None:
                return clipped
        if isinstance(atom, Choice):
            return sum_over(rest * (atom.condition * (atom.then - atom.other) + atom.other), index, low, high, splits)
    if all(isinstance(atom, Symbol) for atom in factors):
        return power_sum(len(factors), low, greatest(low, high))
    covered = tiles(factors, index, low, high)
    if covered is not None:
        return covered
    if splits:
        for at, atom in enumerate(factors):
            if isinstance(atom, Extreme):
                split = _split(atom, monomial(factors[:at] + factors[at + 1 :]), index, low, high, splits - 1)
                if split is not None:
                    return split
    return poly(Sum(monomial(factors), index, low, high))


def _narrowed(body: Poly, index: Symbol, low: Poly, high: Poly, splits: int) -> Poly:
    """Return the sum over a part of a range, with the index bounded by that part."""
    inner = Symbol(index.name, low, high - 1)
    return sum_over(substitute(body, {index.key: poly(inner)}), inner, low, high, splits)


def _clip(test: Test, rest: Poly, index: Symbol, low: Poly, high: Poly, splits: int) -> Poly | None:
    """Shorten the range by [a index + b >= 0], or reduce it to one index.

    It is reduced by [a index + b == 0].
    """
    found = linear(test.value, index)
    if found is None:
        return None
    slope, offset = found
    if test.equal:
        if slope not in (ONE, -ONE):
            return None
        at = -offset if slope == ONE else offset
        inside = resolve_tests(at_least_zero(at - low) * at_least_zero(high - 1 - at))
        return inside * substitute(rest, {index.key: at})
    if positive(slope):
        low = greatest(low, -floor_div(offset, slope))
    elif positive(-slope):
        high = least(high, floor_div(offset, -slope) + 1)
    else:
        return None
    return _narrowed(rest, index, low, high, splits)


def _split(atom: Extreme, rest: Poly, index: Symbol, low: Poly, high: Poly, splits: int) -> Poly | None:
    """Split the range where two arguments of a minimum or maximum cross."""
    for at, first in enumerate(atom.args):
        for second in atom.args[at + 1 :]:
            found = linear(first - second, index)
            if found is None or not found[0].terms:
                continue
            slope, offset = found
            if positive(-slope):
                first, second, slope, offset = second, first, -slope, -offset
            elif not positive(slope):
                continue
            # first - second ascends, so first is the smaller one below the crossing, also where they are equal.
            early, late = (first, second) if atom.least else (second, first)
            before = [arg for arg in atom.args if arg != late]
            after = [arg for arg in atom.args if arg != early]
            make = least if atom.least else greatest
            candidates: list[Poly] = []
            for cut in (-floor_div(offset, slope), floor_div(-offset, slope) + 1):
                middle = least(greatest(low, cut), greatest(low, high))
                candidates.append(
                    _narrowed(make(*before) * rest, index, low, middle, splits)
                    + _narrowed(make(*after) * rest, index, middle, high, splits)
                )
            return min(candidates, key=lambda value: len(value.key))
    return None


def has_sum(value: Poly) -> bool:
    """Return whether a sum is left unevaluated."""
    return "sum(" in value.key
