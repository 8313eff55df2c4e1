"""Construct truth values (1 or 0), and choices between expressions.

Truth values are tests, negation and disjunction.
"""

from __future__ import annotations

from math import gcd

from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Choice, Poly, Test, Unknown, poly
from ioaware.analysis.ir.algebra.prover import nonnegative, positive


def at_least_zero(value: Poly) -> Poly:
    """Return [value >= 0]."""
    constant = value.constant
    if constant is not None:
        return ONE if constant >= 0 else ZERO
    atom = value.atom
    if atom is not None and atom.idempotent:
        return ONE
    common = gcd(*(int(c) if isinstance(c, int) else 1 for monomial, c in value.terms.items() if monomial))
    if common > 1:
        value = Poly({m: c // common for m, c in value.terms.items() if m or c // common})
    return poly(Test(value, equal=False))


def is_zero(value: Poly) -> Poly:
    """Return [value == 0]."""
    constant = value.constant
    if constant is not None:
        return ONE if constant == 0 else ZERO
    first = min(value.terms, key=lambda m: tuple(atom.key for atom in m) or ("~",))
    return poly(Test(value if value.terms[first] > 0 else -value, equal=True))


def negation(truth: Poly) -> Poly:
    """Return 1 - condition; a single inequality is reversed."""
    atom = truth.atom
    if isinstance(atom, Test) and not atom.equal:
        return at_least_zero(-atom.value - 1)
    if isinstance(atom, Unknown):
        return poly(atom.renamed(atom.name.removeprefix("not ") if atom.name.startswith("not ") else f"not {atom.name}"))
    return 1 - truth


def disjoint_or(a: Poly, b: Poly) -> Poly:
    """Return the disjunction of two exclusive conditions.

    A test and its negation merge.
    """
    both = a + b
    for factors, coefficient in both.terms.items():
        for atom in factors:
            opposite = negation(poly(atom)).atom if isinstance(atom, Test) else None
            if opposite is None:
                continue
            rest = tuple(other for other in factors if other != atom)
            partner = tuple(sorted((*rest, opposite), key=lambda other: other.key))
            if both.terms.get(partner) == coefficient:
                left = Poly({m: c for m, c in both.terms.items() if m not in (factors, partner)})
                return disjoint_or(left, Poly({rest: coefficient}))
    return both


def resolve_tests(truth: Poly) -> Poly:
    """Replace every test with a proven outcome by 1 or 0."""
    for atom in truth.atoms:
        if isinstance(atom, Test):
            if atom.equal:
                outcome = ZERO if positive(atom.value) or positive(-atom.value) else None
            else:
                outcome = ONE if nonnegative(atom.value) else ZERO if nonnegative(-atom.value - 1) else None
            if outcome is not None:
                kept = Poly({m: c for m, c in truth.terms.items() if atom not in m})
                moved = Poly({tuple(a for a in m if a != atom): c for m, c in truth.terms.items() if atom in m})
                return resolve_tests(kept + moved * outcome)
    return truth


def choice(condition: Poly, then: Poly, other: Poly) -> Poly:
    """Return `then` where the condition is 1, else `other`."""
    constant = condition.constant
    if constant is not None:
        return then if constant else other
    if then == other:
        return then
    if then == ONE and other == ZERO:
        return condition
    if then == ZERO and other == ONE:
        return negation(condition)
    atom = condition.atom
    if atom is None:  # use the negation if that is a test
        opposite = negation(condition)
        if opposite.atom is not None:
            return choice(opposite, other, then)
    return poly(Choice(condition, then, other))
