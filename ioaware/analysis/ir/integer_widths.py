"""Find the sizes at which integers do not wrap around.

These are the integers that addresses depend on. Loops must step upwards at these sizes, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import lcm

from sympy import Expr, Rational, floor

from ioaware.analysis.ir.accesses.kernel_traffic import Count, Limit
from ioaware.analysis.ir.algebra.constructors import substitute
from ioaware.analysis.ir.algebra.intervals import interval
from ioaware.analysis.ir.algebra.poly import Floor, Poly, poly
from ioaware.analysis.ir.algebra.prover import nonnegative
from ioaware.analysis.ir.algebra.sympy_bridge import to_sympy


def width_limits(widths: Mapping[tuple[Poly, int], str], sizes: Mapping[str, Poly]) -> tuple[Limit, ...]:
    """Return the conditions under which these integers fit in their width.

    The conditions are on parameters.

    `sizes` are the grid's names for minima. An unknown integer fits, because it was loaded in its width.
    """
    ends: dict[int, dict[Poly, str]] = {}
    for (value, bits), line in widths.items():
        found = _remainder_interval(value) or interval(value)
        for end in () if found is None else (found[1], -found[0] - 1):
            resolved = substitute(end, sizes) if sizes else end
            if resolved.constant is None or resolved.constant >= 2 ** (bits - 1):
                ends.setdefault(bits, {}).setdefault(resolved, line)
    limits: list[Limit] = []
    for bits, values in ends.items():
        for value in _largest(list(values)):
            reason = f"integers of {bits} bits at {values[value]} wrap around"
            scale = lcm(*(Fraction(coefficient).denominator for coefficient in value.terms.values()))
            limits.append(Limit(Count(_whole(to_sympy(value * scale))), 2 ** (bits - 1) * scale - 1, reason))
    return tuple(limits)


def step_limits(steps: Mapping[Poly, str], sizes: Mapping[str, Poly]) -> tuple[Limit, ...]:
    """Return the conditions under which the steps of loops are positive."""
    limits: list[Limit] = []
    for step, line in steps.items():
        found = interval(step)
        low = step if found is None else found[0]
        low = substitute(low, sizes) if sizes else low
        scale = lcm(*(Fraction(coefficient).denominator for coefficient in low.terms.values()))
        limits.append(Limit(Count(to_sympy(-low * scale)), -1, f"the loop at {line} does not step upwards"))
    return tuple(limits)


def _whole(bound: Expr) -> Expr:
    """Return a bound of an integer as an integer.

    A maximum inside it may have fractions.
    """
    fractions = any(not number.is_Integer for number in bound.atoms(Rational))
    return floor(bound) if fractions else bound


def _remainder_interval(value: Poly) -> tuple[Poly, Poly] | None:
    """Return [-c, k (d - 1) - c] for k (n - d floor(n / d)) - c, a truncated integer.

    None for another form.
    """
    for atom in value.atoms:
        if isinstance(atom, Floor) and (divisor := atom.denominator.constant) is not None and divisor > 0:
            scale = -value.terms.get((atom,), 0) / Fraction(divisor)
            offset = (atom.numerator * scale - value - poly(atom) * (scale * divisor)).constant
            if scale > 0 and offset is not None:
                return poly(-offset), poly(scale * (divisor - 1) - offset)
    return None


def _largest(values: list[Poly]) -> list[Poly]:
    """Return the values that no other value bounds from above."""
    kept: list[Poly] = []
    for value in sorted(values, key=lambda one: (-len(one.terms), one.key)):
        if any(nonnegative(other - value) for other in kept):
            continue
        kept = [other for other in kept if not nonnegative(value - other)] + [value]
    return kept
