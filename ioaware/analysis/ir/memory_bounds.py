"""Find the sizes at which an access leaves its tensor."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ioaware.analysis.formulas.printing import show
from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.active_range import active_range, conjunctions
from ioaware.analysis.ir.algebra.constructors import rebuild
from ioaware.analysis.ir.algebra.counterexamples import has_counterexample
from ioaware.analysis.ir.algebra.poly import ONE, Atom, Extreme, Floor, Poly, poly
from ioaware.analysis.ir.algebra.prover import nonnegative
from ioaware.analysis.ir.algebra.sympy_bridge import to_sympy
from ioaware.analysis.ir.decoded_indices import decoded

EVERYWHERE = "at every size"


def when_beyond(touch: Touch, size_bytes: Poly) -> str | None:
    """Return when an access leaves `size_bytes` of memory; None for never or unknown.

    The result is text such as `unless n % 256 == 0` or `at every size`. The offset of the last active lane must be known. Under
    a mask, sample sizes must show that the access leaves its tensor: a proof may be missing where the mask is right. Of a mask
    with alternatives, as `a | b`, each is looked at by itself.
    """
    found = [_when_beyond(part, size_bytes) for part in conjunctions(decoded(touch))]
    conditions = list(dict.fromkeys(one for one in found if one))
    return EVERYWHERE if EVERYWHERE in conditions else f"unless {' and '.join(conditions)}" if conditions else None


def _when_beyond(touch: Touch, size_bytes: Poly) -> str:
    """Return when an access stays inside; empty for always or unknown."""
    active = active_range(touch)
    if active is None:
        return ""
    wanted: list[str] = []
    last = active.high + touch.element_bytes
    room, evident = size_bytes - last, touch.mask == ONE
    if not nonnegative(room) and (evident or has_counterexample(room, active.conditions)):
        wanted.append(_no_more_than(last, size_bytes))
    if not nonnegative(active.low) and (evident or has_counterexample(active.low, active.conditions)):
        wanted.append(f"{show(to_sympy(active.low))} >= 0")
    never = not active.conditions and any(end.constant is not None and end.constant < 0 for end in (active.low, room))
    return EVERYWHERE if never else " and ".join(wanted)


def _no_more_than(last: Poly, size: Poly) -> str:
    """Return last <= size as text.

    A minimum is no more than the size where one of its arguments is.
    """
    possible = [each for each in _without_minima(last) if not nonnegative(each - size - 1)]
    return " or ".join(dict.fromkeys(_one_no_more_than(each - size, each, size) for each in possible or [last]))


def _without_minima(value: Poly) -> Iterator[Poly]:
    """Return the values of which an expression with minima is the least."""
    for atom in value.atoms:
        if isinstance(atom, Extreme) and atom.least and value.terms.get((atom,), 0) > 0:
            for arg in atom.args:
                by: dict[Atom, Poly] = {atom: arg}
                yield from _without_minima(rebuild(value, by.get))
            return
    yield value


def _one_no_more_than(excess: Poly, last: Poly, size: Poly) -> str:
    """Return excess <= 0 as text: b ceil(n/b) <= n means that n is a multiple of b."""
    for atom in excess.atoms:
        divisor = atom.denominator.constant if isinstance(atom, Floor) else None
        if not isinstance(atom, Floor) or divisor is None:
            continue
        rounded = poly(atom) * divisor - (atom.numerator - (divisor - 1))
        times = Fraction(excess.terms.get((atom,), 0)) / Fraction(divisor)
        if times > 0 and excess == rounded * times:
            length = atom.numerator - (divisor - 1)
            text = show(to_sympy(length))
            return f"({text}) % {divisor} == 0" if len(length.terms) > 1 else f"{text} % {divisor} == 0"
    return f"{show(to_sympy(last))} <= {show(to_sympy(size))} bytes"


__all__ = ["when_beyond"]
