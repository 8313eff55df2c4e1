"""Find the sizes at which an access without a mask leaves its tensor."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ioaware.analysis.formulas.printing import show
from ioaware.analysis.ir.accesses.access_log import Condition, Touch
from ioaware.analysis.ir.algebra.intervals import interval
from ioaware.analysis.ir.algebra.poly import ONE, Floor, Poly, Symbol, parts, poly
from ioaware.analysis.ir.algebra.prover import nonnegative
from ioaware.analysis.ir.algebra.sympy_bridge import to_sympy


def when_beyond(touch: Touch, size_bytes: Poly) -> str | None:
    """Return when an access leaves `size_bytes` of memory; None for never or unknown.

    The result is text such as `unless n % 256 == 0` or `at every size`. Only an access with all executions and lanes active is
    judged: its last byte is then known exactly.
    """
    offset = touch.target.offset
    if not _always_runs(touch) or not _is_reached(offset):
        return None
    ends = interval(offset)
    if ends is None:
        return None
    wanted: list[str] = []
    excess = ends[1] + touch.element_bytes - size_bytes
    if not nonnegative(-excess):
        wanted.append(_no_more_than_zero(excess, ends[1] + touch.element_bytes, size_bytes))
    if not nonnegative(ends[0]):
        wanted.append(f"{show(to_sympy(ends[0]))} >= 0")
    never = any(end.constant is not None and end.constant < 0 for end in (ends[0], -excess))
    return "at every size" if never else f"unless {' and '.join(wanted)}" if wanted else None


def _always_runs(touch: Touch) -> bool:
    conditions = [scope.truth for scope in touch.scopes if isinstance(scope, Condition)]
    return all(truth == ONE for truth in (touch.mask, touch.target.condition, *conditions))


def _is_reached(offset: Poly) -> bool:
    """Return whether the bounds of an offset are attained.

    They are if each index occurs alone and varies freely.
    """
    seen: list[Symbol] = []
    for factors in offset.terms:
        indices = [atom for atom in factors if isinstance(atom, Symbol) and atom.upper is not None]
        others = [atom for atom in factors if not isinstance(atom, Symbol)]
        if len(indices) > 1 or others:
            return False
        seen += indices
    bounds = [end for index in seen for end in (index.lower, index.upper) if end is not None]
    return len(set(seen)) == len(seen) and not any(_has_index(bound) for bound in bounds)


def _has_index(bound: Poly) -> bool:
    return any(isinstance(atom, Symbol) and atom.upper is not None for atom in _all_atoms([bound]))


def _all_atoms(values: Sequence[Poly]) -> list[object]:
    found: list[object] = []
    for value in values:
        for atom in value.atoms:
            found += [atom, *_all_atoms(parts(atom))]
    return found


def _no_more_than_zero(excess: Poly, last: Poly, size: Poly) -> str:
    """Return excess <= 0 as text: b ceil(n/b) <= n means that n is a multiple of b."""
    for atom in excess.atoms:
        divisor = atom.denominator.constant if isinstance(atom, Floor) else None
        if not isinstance(atom, Floor) or divisor is None:
            continue
        rounded = poly(atom) * divisor - (atom.numerator - (divisor - 1))
        times = Fraction(excess.terms.get((atom,), 0)) / Fraction(divisor)
        if times > 0 and excess == rounded * times:
            length = atom.numerator - (divisor - 1)
            return f"{show(to_sympy(length))} % {divisor} == 0"
    return f"{show(to_sympy(last))} <= {show(to_sympy(size))} bytes"


__all__ = ["when_beyond"]
