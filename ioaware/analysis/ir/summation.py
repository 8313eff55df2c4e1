"""Sums in closed form: clipped ranges, tiles that cover a length, triangles, and the split where a minimum changes sides.

Every rule is an identity of integers for any bounds. What no rule closes stays a sum, which is still evaluated exactly.
"""

from __future__ import annotations

from fractions import Fraction

import sympy

from ioaware.analysis.ir.bounds import nonnegative, positive, replace_atom
from ioaware.analysis.ir.build import at_least_zero, decided, floor_div, greatest, least, substitute
from ioaware.analysis.ir.poly import (
    ONE,
    ZERO,
    Atom,
    Choice,
    Extreme,
    Floor,
    Monomial,
    Poly,
    Sum,
    Symbol,
    Test,
    monomial,
    poly,
    total,
    whole,
)

MOST_TERMS = 60  # a closed form longer than this helps no reader: the sum stays
MOST_SPLITS = 5


def sum_over(body: Poly, index: Symbol, low: Poly, high: Poly, splits: int = MOST_SPLITS) -> Poly:
    """The sum of `body` for index = low .. high - 1, 0 where high <= low."""
    body = decided(body)
    if index.key not in body.free:
        return body * extent(low, high)
    digits = _by_digits(body, index, low, high, splits)
    if digits is not None:
        return digits
    remainder = _one_tile(body, index, low, high)
    if remainder is not None:
        return remainder
    groups: dict[Monomial, dict[Monomial, object]] = {}
    for factors, coefficient in body.terms.items():
        inside = tuple(atom for atom in factors if index.key in atom.free)
        outside = tuple(atom for atom in factors if index.key not in atom.free)
        groups.setdefault(inside, {})[outside] = coefficient
    parts = [
        Poly(outside) * _sum_product(inside, index, low, high, splits)  # pyright: ignore[reportArgumentType]
        for inside, outside in groups.items()
    ]
    result = total(parts)
    return result if len(result.terms) <= MOST_TERMS else poly(Sum(body, index, low, high))


def extent(low: Poly, high: Poly) -> Poly:
    """How many integers there are from low up to high, exclusive."""
    return greatest(ZERO, high - low)


def _sum_product(factors: Monomial, index: Symbol, low: Poly, high: Poly, splits: int) -> Poly:
    """The sum of a product of atoms that all change with the index."""
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
        return _power_sum(len(factors), low, greatest(low, high))
    tiles = _tiles(factors, index, low, high)
    if tiles is not None:
        return tiles
    if splits:
        for at, atom in enumerate(factors):
            if isinstance(atom, Extreme):
                split = _split(atom, monomial(factors[:at] + factors[at + 1 :]), index, low, high, splits - 1)
                if split is not None:
                    return split
    return poly(Sum(monomial(factors), index, low, high))


def linear(value: Poly, index: Symbol) -> tuple[Poly, Poly] | None:
    """(a, b) with value = a index + b, where neither changes with the index."""
    slope: dict[Monomial, object] = {}
    rest: dict[Monomial, object] = {}
    for factors, coefficient in value.terms.items():
        inside = [atom for atom in factors if index.key in atom.free]
        if not inside:
            rest[factors] = coefficient
        elif inside == [index]:
            slope[tuple(atom for atom in factors if atom != index)] = coefficient
        else:
            return None
    return Poly(slope), Poly(rest)  # pyright: ignore[reportArgumentType]


def _narrowed(body: Poly, index: Symbol, low: Poly, high: Poly, splits: int) -> Poly:
    """The sum over a part of a range: the index is known to lie in that part."""
    inner = Symbol(index.name, low, high - 1)
    return sum_over(substitute(body, {index.key: poly(inner)}), inner, low, high, splits)


def _clip(test: Test, rest: Poly, index: Symbol, low: Poly, high: Poly, splits: int) -> Poly | None:
    """[a index + b >= 0] shortens the range; [a index + b == 0] leaves one index."""
    found = linear(test.value, index)
    if found is None:
        return None
    slope, offset = found
    if test.equal:
        if slope not in (ONE, -ONE):
            return None
        at = -offset if slope == ONE else offset
        inside = decided(at_least_zero(at - low) * at_least_zero(high - 1 - at))
        return inside * substitute(rest, {index.key: at})
    if positive(slope):
        low = greatest(low, -floor_div(offset, slope))
    elif positive(-slope):
        high = least(high, floor_div(offset, -slope) + 1)
    else:
        return None
    return _narrowed(rest, index, low, high, splits)


def _power_sum(power: int, low: Poly, high: Poly) -> Poly:
    """The sum of index**power, low <= high: Faulhaber's polynomial at both ends."""
    x = sympy.Symbol("x")
    faulhaber = sympy.Poly(sympy.summation(x**power, (x, 0, x - 1)), x) if power > 2 else None  # pyright: ignore
    coefficients = {1: (0, Fraction(-1, 2), Fraction(1, 2)), 2: (0, Fraction(1, 6), Fraction(-1, 2), Fraction(1, 3))}.get(power)
    if coefficients is None:
        assert faulhaber is not None
        coefficients = tuple(Fraction(int(c.p), int(c.q)) for c in reversed(faulhaber.all_coeffs()))  # pyright: ignore

    def at(end: Poly) -> Poly:
        result, running = ZERO, ONE
        for c in coefficients:
            result, running = result + running * c, running * end
        return result

    return at(high) - at(low)


def _tiles(factors: Monomial, index: Symbol, low: Poly, high: Poly) -> Poly | None:
    """Tiles of size c that cover a length: sum max(0, min(c, A - c index)) = max(0, min(c (high - low), A - c low))."""
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
    if slope == size:  # the tiles ascend: count the index from the other end
        slope, offset = -slope, offset + slope * (low + high - 1)
    if slope != -size:
        return None
    if not clipped and not nonnegative(offset + slope * (high - 1)) and not nonnegative(moving[0]):
        return None
    return greatest(ZERO, least(size * (high - low), offset + slope * low))


def _one_tile(body: Poly, index: Symbol, low: Poly, high: Poly) -> Poly | None:
    """The sum of A - c index, known to lie between 0 and c: what is left of a length after its whole tiles."""
    found = linear(body, index)
    if found is None or not nonnegative(-found[0]) or not nonnegative(body) or not nonnegative(-found[0] - body):
        return None
    slope, offset = found
    high = greatest(low, high)
    return greatest(ZERO, least(-slope * (high - low), offset + slope * low))


def _split(atom: Extreme, rest: Poly, index: Symbol, low: Poly, high: Poly, splits: int) -> Poly | None:
    """Where two arguments of a minimum or maximum cross, the range is cut in two."""
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
            # first - second ascends: first is the smaller one below the crossing, wherever they are equal.
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


def _by_digits(body: Poly, index: Symbol, low: Poly, high: Poly, splits: int) -> Poly | None:
    """An index used through floor(index / D) and its remainder is two indices, where the range is a multiple of D."""
    if low.terms:
        return None
    divisors = {atom.denominator for atom in _floors(body) if atom.numerator == poly(index)}
    for divisor in sorted(divisors, key=lambda d: len(d.key)):
        quotient = _exact_quotient(high, divisor)
        if quotient is None or not positive(divisor):
            continue
        tens = Symbol(f"{index.name}'", ZERO, quotient - 1)
        ones = Symbol(f"{index.name}''", ZERO, divisor - 1)
        spread = substitute(body, {index.key: divisor * poly(tens) + poly(ones)})
        return sum_over(sum_over(spread, ones, ZERO, divisor, splits), tens, ZERO, quotient, splits)
    return None


def _exact_quotient(a: Poly, b: Poly) -> Poly | None:
    quotient = floor_div(a, b)
    return quotient if (quotient * b) == a else None


def _floors(value: Poly) -> list[Floor]:
    """Every floor inside, the inner ones first."""
    found: list[Floor] = []
    for atom in value.atoms:
        match atom:
            case Floor():
                found += [*_floors(atom.numerator), *_floors(atom.denominator), atom]
            case Extreme():
                found += [floor for arg in atom.args for floor in _floors(arg)]
            case Test():
                found += _floors(atom.value)
            case Choice():
                found += [*_floors(atom.condition), *_floors(atom.then), *_floors(atom.other)]
            case Sum():
                found += [*_floors(atom.body), *_floors(atom.low), *_floors(atom.high)]
            case _:
                pass
    return found


def simplified(value: Poly) -> Poly:
    """c min(a, b) + c x as c min(a + x, b + x) wherever that cancels terms."""
    for factors, coefficient in value.terms.items():
        for atom in factors:
            if not isinstance(atom, Extreme):
                continue
            others = tuple(a for a in factors if a != atom)
            beside = {m: left for m in value.terms if atom not in m and (left := _divided(m, others)) is not None}
            shared = Poly({left: whole(Fraction(value.terms[m]) / coefficient) for m, left in beside.items()})
            if not _cancels(atom, shared) or any(not isinstance(c, int) for c in shared.terms.values()):
                continue
            merged = (least if atom.least else greatest)(*(simplified(arg + shared) for arg in atom.args))
            kept = Poly({m: c for m, c in value.terms.items() if m != factors and m not in beside})
            candidate = kept + monomial(others, coefficient) * merged
            if len(candidate.key) < len(value.key):
                return simplified(candidate)
    return value


def _cancels(atom: Extreme, shared: Poly) -> bool:
    """Whether adding `shared` removes a term from an argument, or from one of a minimum or maximum inside."""
    for arg in atom.args:
        if any(m and arg.terms.get(m) == -c for m, c in shared.terms.items()):
            return True
        inner = arg.atom
        if isinstance(inner, Extreme) and _cancels(inner, shared):
            return True
    return False


def _divided(factors: Monomial, by: Monomial) -> Monomial | None:
    left = list(factors)
    for atom in by:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


__all__ = ["extent", "linear", "replace_atom", "simplified", "sum_over"]
