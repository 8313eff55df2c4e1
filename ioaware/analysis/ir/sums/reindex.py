"""Change the summation index: split into digits, join two, rotate remainders.

Each is a bijection between the integers summed over: a sum keeps its value for any body.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from ioaware.analysis.ir.algebra.constructors import floor_div, least, substitute
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Atom, Floor, Poly, Sum, Symbol, parts, poly
from ioaware.analysis.ir.algebra.prover import nonnegative, positive


@dataclass(frozen=True, slots=True)
class Digits:
    """The body in terms of `ones` (0 to `length`) inside `tens` (0 to `quotient`)."""

    body: Poly
    ones: Symbol
    length: Poly
    tens: Symbol
    quotient: Poly
    exact: bool
    """Whether every length is the divisor."""


def split_into_digits(body: Poly, index: Symbol, low: Poly, high: Poly) -> Iterator[Digits]:
    """Split an index used as floor(index / D) and index mod D into two.

    The last block may be short.
    """
    if low.terms:
        return
    divisors = {atom.denominator for atom in floors(body) if atom.numerator == poly(index)}
    for divisor in sorted(divisors, key=lambda d: (-len(d.terms), -len(d.key), d.key)):
        if index.key in divisor.free or not positive(divisor):
            continue
        exact = _exact_quotient(high, divisor)
        quotient = exact if exact is not None else floor_div(high + divisor - 1, divisor)
        tens = Symbol(f"{index.name}_quotient", ZERO, quotient - 1)
        length = divisor if exact is not None else least(divisor, high - divisor * poly(tens))
        ones = Symbol(f"{index.name}_rest", ZERO, length - 1)
        spread = substitute(body, {index.key: divisor * poly(tens) + poly(ones)})
        yield Digits(spread, ones, length, tens, quotient, exact is not None)


def _exact_quotient(a: Poly, b: Poly) -> Poly | None:
    quotient = floor_div(a, b)
    return quotient if (quotient * b) == a else None


def rotate(body: Poly, index: Symbol, low: Poly, high: Poly) -> tuple[Poly, Symbol, Poly, Poly] | None:
    """Rewrite a body in (index + c) mod D over k D indices: each remainder 0 ..

    D - 1 occurs k times.

    Returns the body in the remainder, the remainder, D and k; None where the body depends on more than the remainder.
    """
    found = {atom: atom.numerator - poly(index) for atom in floors(body)}
    for atom, start in found.items():
        turn = atom.denominator
        times = _exact_quotient(high - low, turn) if index.key not in start.free | turn.free else None
        if times is None or not (times == ONE or (positive(turn) and nonnegative(times))):
            continue
        if times == ONE and not start.terms and not low.terms:
            continue
        remainder, turns = Symbol(f"{index.name}_rest", ZERO, turn - 1), Symbol(f"{index.name}_turns")
        moved = substitute(body, {index.key: poly(remainder) + turn * poly(turns) - start})
        if not {turns.key, index.key} & moved.free:
            return moved, remainder, turn, times
    return None


def join_two(body: Poly, inner: Symbol, inner_size: Poly, outer: Symbol, outer_size: Poly) -> tuple[Poly, Symbol] | None:
    """Join two indices from 0 into one.

    They are used only as `inner + inner_size outer`.
    """
    if not {inner.key, outer.key} <= body.free or not nonnegative(inner_size) or not nonnegative(outer_size):
        return None
    if {inner.key, outer.key} & (inner_size.free | outer_size.free):
        return None
    both = Symbol(f"{outer.name}_{inner.name}", ZERO, inner_size * outer_size - 1)
    moved = substitute(body, {inner.key: poly(both) - inner_size * poly(outer)})
    return None if {inner.key, outer.key} & moved.free else (moved, both)


def join_pairs(body: Poly, indices: Sequence[Symbol], sizes: Sequence[Poly]) -> tuple[Poly, Sequence[Symbol], Sequence[Poly]]:
    """Join every two indices that are used as one; the outermost comes first."""
    for inner, outer in permutations(range(len(indices)), 2):
        rest = [at for at in range(len(indices)) if at not in (inner, outer)]
        others, their_sizes = [indices[at] for at in rest], [sizes[at] for at in rest]
        found = join_two(body, indices[inner], sizes[inner], indices[outer], sizes[outer])
        if found is not None:
            return join_pairs(found[0], [found[1], *others], [sizes[inner] * sizes[outer], *their_sizes])
        for digits in split_into_digits(body, indices[outer], ZERO, sizes[outer]) if indices[inner].key in body.free else ():
            found = join_two(digits.body, indices[inner], sizes[inner], digits.ones, digits.length)
            if found is not None:
                product = sizes[inner] * digits.length
                return found[0], [digits.tens, found[1], *others], [digits.quotient, product, *their_sizes]
    return body, indices, sizes


def floors(value: Poly) -> list[Floor]:
    """Return every floor inside once, inner ones first.

    Those with the index of a sum inside are left out: outside of that sum they mean nothing.
    """
    return list(_floors(value, {}))


def _floors(value: Poly, known: dict[Atom, dict[Floor, None]]) -> dict[Floor, None]:
    """Return the floors inside.

    `known` are those of atoms met before, which occur again and again.
    """
    found: dict[Floor, None] = {}
    for atom in value.atoms:
        if atom not in known:
            known[atom] = _floors_of(atom, known)
        found |= known[atom]
    return found


def _floors_of(atom: Atom, known: dict[Atom, dict[Floor, None]]) -> dict[Floor, None]:
    inside: dict[Floor, None] = {}
    for part in parts(atom):
        inside |= _floors(part, known)
    if isinstance(atom, Sum):
        return {floor: None for floor in inside if atom.index.key not in floor.free}
    return inside | {atom: None} if isinstance(atom, Floor) else inside
