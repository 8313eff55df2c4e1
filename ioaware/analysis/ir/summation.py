"""Sums in closed form: clipped ranges, tiles that cover a length, triangles, and the split where a minimum changes sides.

Every rule is an identity of integers for any bounds. What no rule closes stays a sum, which is still evaluated exactly.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import comb, gcd

from ioaware.analysis.ir.bounds import nonnegative, positive, replace_atom
from ioaware.analysis.ir.build import at_least_zero, decided, floor_div, greatest, least, substitute
from ioaware.analysis.ir.poly import (
    ONE,
    ZERO,
    Atom,
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

READABLE, LONGER = 25, 2  # a closed form of more parts than this, and than so many times its sum, helps no reader
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
    groups: dict[Monomial, dict[Monomial, Coefficient]] = {}
    for factors, coefficient in body.terms.items():
        inside = tuple(atom for atom in factors if index.key in atom.free)
        outside = tuple(atom for atom in factors if index.key not in atom.free)
        groups.setdefault(inside, {})[outside] = coefficient
    sums = {inside: _sum_product(inside, index, low, high, splits) for inside in groups}
    result = total(Poly(outside) * sums[inside] for inside, outside in groups.items())
    plain = _left(body, index, low, high)
    too_long = size(result) > max(READABLE, LONGER * size(plain))
    return plain if too_long or any(map(has_sum, sums.values())) else result


def size(value: Poly) -> int:
    """How many parts a reader has to take in."""
    return sum(1 + sum(_atom_size(atom) for atom in factors) for factors in value.terms)


@lru_cache(maxsize=20_000)
def _atom_size(atom: Atom) -> int:
    return 1 + sum(size(part) for part in parts(atom))


def _left(body: Poly, index: Symbol, low: Poly, high: Poly) -> Poly:
    """The sum as it stands: what does not change with the index, and a common factor, come out."""
    still = Poly({m: c for m, c in body.terms.items() if all(index.key not in atom.free for atom in m)})
    moving = body - still
    shared = [
        atom for atom in dict.fromkeys(next(iter(moving.terms)))
        if index.key not in atom.free and all(atom in factors for factors in moving.terms)
    ]  # fmt: skip
    coefficients = list(moving.terms.values())
    common = gcd(*(int(c) for c in coefficients)) if all(isinstance(c, int) for c in coefficients) else 1
    common = -common if all(c < 0 for c in coefficients) else common
    inner = Poly({_divided(m, tuple(shared)) or (): whole(Fraction(c) / common) for m, c in moving.terms.items()})
    return still * extent(low, high) + monomial(tuple(shared), common) * poly(Sum(inner, index, low, high))


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
    coefficients = _faulhaber(power)

    def at(end: Poly) -> Poly:
        result, running = ZERO, ONE
        for coefficient in coefficients:
            result, running = result + running * coefficient, running * end
        return result

    return at(high) - at(low)


@lru_cache(maxsize=16)
def _faulhaber(power: int) -> tuple[Fraction, ...]:
    """Coefficients of the polynomial S with S(n) = 0**p + 1**p + .. + (n - 1)**p, from S(n + 1) - S(n) = n**p."""
    left = [Fraction(0)] * power + [Fraction(1)]
    found = [Fraction(0)] * (power + 2)
    for degree in range(power, -1, -1):
        found[degree + 1] = left[degree] / (degree + 1)
        for lower in range(degree + 1):
            left[lower] -= found[degree + 1] * comb(degree + 1, lower)
    return tuple(found)


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
    """An index used through floor(index / D) and its remainder is two indices; the last of the higher ones may be short."""
    if low.terms:
        return None
    divisors = {atom.denominator for atom in _floors(body) if atom.numerator == poly(index)}
    for divisor in sorted(divisors, key=lambda d: (-len(d.terms), -len(d.key), d.key)):
        if not positive(divisor):
            continue
        exact = _exact_quotient(high, divisor)
        quotient = exact if exact is not None else floor_div(high + divisor - 1, divisor)
        tens = Symbol(f"{index.name}_quotient", ZERO, quotient - 1)
        length = divisor if exact is not None else least(divisor, high - divisor * poly(tens))
        ones = Symbol(f"{index.name}_rest", ZERO, length - 1)
        spread = substitute(body, {index.key: divisor * poly(tens) + poly(ones)})
        result = sum_over(sum_over(spread, ones, ZERO, length, splits), tens, ZERO, quotient, splits)
        if exact is not None or not has_sum(result):
            return result
    return None


def has_sum(value: Poly) -> bool:
    """Whether a sum stays in it."""
    return "sum(" in value.key


def _exact_quotient(a: Poly, b: Poly) -> Poly | None:
    quotient = floor_div(a, b)
    return quotient if (quotient * b) == a else None


def _floors(value: Poly) -> list[Floor]:
    """Every floor inside, the inner ones first."""
    found: list[Floor] = []
    for atom in value.atoms:
        found += [floor for part in parts(atom) for floor in _floors(part)]
        if isinstance(atom, Floor):
            found.append(atom)
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
