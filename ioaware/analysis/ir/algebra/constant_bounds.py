"""Find constant lower bounds of expressions from the bounds of their atoms."""

from __future__ import annotations

from functools import lru_cache

from ioaware.analysis.ir.algebra.poly import (
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
    Unknown,
)

CACHED = 20_000


@lru_cache(maxsize=CACHED)
def constant_lower_bound(value: Poly) -> Coefficient | None:
    """Return a constant that `value` is never below; None where no rule gives one."""
    shifted = _shifted(value)
    if any(c < 0 for monomial, c in shifted.items() if monomial):
        return None
    return shifted.get((), 0)


@lru_cache(maxsize=CACHED)
def atom_lower_bound(atom: Atom) -> Coefficient | None:
    """Return a constant that the atom is never below; None where no rule gives one."""
    match atom:
        case Symbol():
            return constant_lower_bound(atom.lower) if atom.lower is not None else None
        case Test():
            return 0
        case Floor():
            low, divisor = constant_lower_bound(atom.numerator), atom.denominator.constant
            if low is None:
                return None
            if divisor is not None and divisor > 0:
                return low // divisor
            return 0 if low >= 0 and (constant_lower_bound(atom.denominator) or 0) > 0 else None
        case Extreme():
            lows = [constant_lower_bound(arg) for arg in atom.args]
            known = [low for low in lows if low is not None]
            if atom.least:
                return min(known) if len(known) == len(lows) else None
            return max(known) if known else None
        case Choice():
            then, other = constant_lower_bound(atom.then), constant_lower_bound(atom.other)
            return None if then is None or other is None else min(then, other)
        case Sum():
            low = constant_lower_bound(atom.body)
            return 0 if low is not None and low >= 0 else None
        case Unknown():
            return 0 if atom.idempotent else None
        case _:
            return None


def _shifted(value: Poly) -> dict[Monomial, Coefficient]:
    """Return the terms with each atom as its lower bound plus a rest.

    The rest is non-negative.
    """
    result: dict[Monomial, Coefficient] = {}
    for monomial, coefficient in value.terms.items():
        expanded: dict[Monomial, Coefficient] = {(): coefficient}
        for atom in monomial:
            low = atom_lower_bound(atom)
            if low is None:
                return {(atom,): -1}  # its sign is unknown
            grown: dict[Monomial, Coefficient] = {}
            for factors, c in expanded.items():
                grown[(*factors, atom)] = grown.get((*factors, atom), 0) + c
                if low:
                    grown[factors] = grown.get(factors, 0) + c * low
            expanded = grown
        for factors, c in expanded.items():
            result[factors] = result.get(factors, 0) + c
    return result
