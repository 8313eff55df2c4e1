"""Simplify formulas for display: merge minima and halved floors.

Measure the size of a formula.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import permutations

from ioaware.analysis.ir.algebra.constructors import floor_div, greatest, least
from ioaware.analysis.ir.algebra.division import monomial_quotient
from ioaware.analysis.ir.algebra.poly import (
    ZERO,
    Atom,
    Coefficient,
    Extreme,
    Floor,
    Monomial,
    Poly,
    monomial,
    parts,
    poly,
    whole,
)
from ioaware.analysis.ir.algebra.prover import nonnegative


def size(value: Poly) -> int:
    """Return the number of parts of an expression."""
    return sum(1 + sum(_atom_size(atom) for atom in factors) for factors in value.terms)


@lru_cache(maxsize=20_000)
def _atom_size(atom: Atom) -> int:
    return 1 + sum(size(part) for part in parts(atom))


@lru_cache(maxsize=8192)
def simplify(value: Poly) -> Poly:
    """Merge minima with the terms they cancel, adjacent clips, and halved floors.

    Adjacent clips become one, and two halved floors become one.
    """
    value = _halves(value)
    for factors, coefficient in value.terms.items():
        for atom in factors:
            others = tuple(a for a in factors if a != atom)
            if not isinstance(atom, Extreme) or len(others) != len(factors) - 1:
                continue
            quotients = {m: monomial_quotient(m, others) for m in value.terms if m != factors}
            beside = {left: value.terms[m] for m, left in quotients.items() if left is not None}
            scaled = {m: whole(Fraction(c) / coefficient) for m, c in beside.items() if atom not in m}
            merged = _with_shared(atom, scaled) or _with_next(atom, scaled)
            if merged is None:
                continue
            found, used = merged
            kept = Poly({m: c for m, c in value.terms.items() if m != factors})
            candidate = kept + monomial(others, coefficient) * (found - used)
            if len(candidate.key) < len(value.key):
                return simplify(candidate)
    return value


def _halves(value: Poly) -> Poly:
    """Apply Hermite's identity floor(y/2d) + floor((y + d)/2d) = floor(y/d).

    Any two terms give the third.
    """
    found = {atom for atom in value.atoms if isinstance(atom, Floor) and (atom.denominator.constant or 1) % 2 == 0}
    for lower in sorted(found, key=lambda atom: atom.key):
        double = int(lower.denominator.constant or 0)
        upper = floor_div(lower.numerator + double // 2, lower.denominator).atom if double > 0 else None
        if upper is None or upper not in found:
            continue
        whole = floor_div(lower.numerator, poly(double // 2))
        for other, by in ((lower, upper), (upper, lower)):  # of the two the ceiling is kept
            shorter = _exchanged(value, other, whole - poly(by))
            if len(shorter.key) < len(value.key):
                return _halves(shorter)
    return value


def _exchanged(value: Poly, atom: Atom, by: Poly) -> Poly:
    """Replace a factor of any power."""
    result = ZERO
    for factors, coefficient in value.terms.items():
        term = monomial(tuple(factor for factor in factors if factor != atom), coefficient)
        for _ in range(factors.count(atom)):
            term = term * by
        result = result + term
    return result


def _with_shared(atom: Extreme, beside: Mapping[Monomial, Coefficient]) -> tuple[Poly, Poly] | None:
    """Return min(a + x, b + x) and x, for the terms x that an argument cancels.

    The terms stand beside min(a, b).
    """
    shared = Poly({m: c for m, c in beside.items() if isinstance(c, int) and _cancels(atom, m, c)})
    if not shared.terms:
        return None
    return (least if atom.least else greatest)(*(simplify(arg + shared) for arg in atom.args)), shared


def _cancels(atom: Extreme, term: Monomial, coefficient: Coefficient) -> bool:
    """Return whether adding the term removes one from an argument.

    A minimum or maximum inside the argument counts too.
    """
    inner = [arg.atom for arg in atom.args]
    return any(arg.terms.get(term) == -coefficient for arg in atom.args) or any(
        isinstance(other, Extreme) and _cancels(other, term, coefficient) for other in inner
    )


def _with_next(atom: Extreme, beside: Mapping[Monomial, Coefficient]) -> tuple[Poly, Poly] | None:
    """Return min(a + b, x) for a sum of clips, and its second term.

    The sum is min(a, x) + max(0, min(b, x - a)) with a and b >= 0.

    Where the first is clipped at 0 the result is too.
    """
    first = _clip(atom)
    bare = first is None and atom.least and len(atom.args) == 2
    if bare:
        first = atom.args[0], atom.args[1]
    for factors, c in beside.items() if first is not None else ():
        other = factors[0] if len(factors) == 1 and c == 1 else None
        second = _clip(other) if isinstance(other, Extreme) else None
        if first is None or second is None:
            continue
        for size, rest in permutations(first):
            for next_size, next_rest in permutations(second):
                if next_rest == rest - size and nonnegative(size) and nonnegative(next_size):
                    joined = least(size + next_size, rest)
                    return joined if bare else greatest(ZERO, joined), monomial(factors)
    return None


def _clip(atom: Extreme) -> tuple[Poly, Poly] | None:
    """Return a and x of max(0, min(a, x)); None for another form."""
    inner = [arg for arg in atom.args if arg != ZERO]
    low = inner[0].atom if not atom.least and len(inner) == 1 < len(atom.args) else None
    return (low.args[0], low.args[1]) if isinstance(low, Extreme) and low.least and len(low.args) == 2 else None
