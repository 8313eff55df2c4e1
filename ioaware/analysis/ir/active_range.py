"""Find the first and last byte offset that the active lanes of an access reach.

The mask must be a conjunction of inequalities. Each bounds a part of the offset's indices, as `pid * 256 + lane < n` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from ioaware.analysis.ir.accesses.access_log import Condition, Touch
from ioaware.analysis.ir.algebra.constructors import floor_div, greatest, least
from ioaware.analysis.ir.algebra.intervals import Interval, interval
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Atom, Monomial, Poly, Symbol, Test, Unknown, parts, poly
from ioaware.analysis.ir.algebra.predicates import resolve_tests
from ioaware.analysis.ir.algebra.prover import nonnegative

Slopes = dict[Symbol, Poly]
"""Coefficient of each index in an expression that is affine in them."""


@dataclass(frozen=True, slots=True)
class ActiveRange:
    """The least and greatest offset of an active lane, in bytes.

    Both are attained by some lane of some program, if any is active.
    """

    low: Poly
    high: Poly
    conditions: tuple[Poly, ...] = ()
    """Lanes are active where these are at least 0."""


def active_range(touch: Touch) -> ActiveRange | None:
    """Return the range of offsets of the active lanes of an access.

    None where it is not known, since the offset or the mask is not affine, or where no lane is active.
    """
    split, tests = _affine(touch.target.offset), _inequalities(touch)
    if split is None or tests is None:
        return None
    slopes, constant = split
    if not all(_has_fixed_bounds(index) for some in (slopes, *(shape for shape, _ in tests)) for index in some):
        return None
    low = high = constant
    conditions: list[Poly] = []
    for indices, bounds in _groups(tests):
        found = _bounded(indices, bounds, {index: slopes.pop(index, ZERO) for index in indices})
        if found is None:
            return None
        low, high = low + found.low, high + found.high
        conditions += found.conditions
    for index, slope in slopes.items():
        ends = interval(poly(index))
        found = None if ends is None else _scaled(slope, *ends)
        if found is None:
            return None
        low, high = low + found[0], high + found[1]
    return ActiveRange(low, high, tuple(conditions))


def _inequalities(touch: Touch) -> list[tuple[Slopes, Poly]] | None:
    """Return slopes and constant of each value that must be at least 0.

    None for another kind of mask. An equation is two inequalities.
    """
    truth = _truth(touch)
    if len(truth.terms) != 1 or next(iter(truth.terms.values())) != 1:
        return None
    found: list[tuple[Slopes, Poly]] = []
    for atom in next(iter(truth.terms)):
        values = () if not isinstance(atom, Test) else (atom.value, -atom.value) if atom.equal else (atom.value,)
        splits = [split for value in values if (split := _affine(value)) is not None and split[0]]
        if not splits or len(splits) < len(values):
            return None
        found += splits
    return found


def conjunctions(touch: Touch) -> Iterator[Touch]:
    """Yield the access under each conjunction of tests that makes lanes active.

    A mask such as `a | b` has several, and other masks one: their own.
    """
    truth = _truth(touch)
    if len(truth.terms) <= 1:
        yield touch
        return
    for factors in truth.terms:
        if factors and all(map(_is_test, factors)) and _given(truth, factors) == ONE:
            loops = tuple(scope for scope in touch.scopes if not isinstance(scope, Condition))
            yield replace(touch, mask=Poly({factors: 1}), scopes=loops)


def _truth(touch: Touch) -> Poly:
    """Return the mask together with the conditions around an access."""
    truth = ONE
    for each in (touch.mask, *(scope.truth for scope in touch.scopes if isinstance(scope, Condition))):
        truth = truth * each
    return truth if truth == ONE else resolve_tests(truth)


def _is_test(atom: Atom) -> bool:
    return isinstance(atom, Test)


def _given(truth: Poly, factors: Monomial) -> Poly:
    """Return a truth value where these tests hold."""
    found: dict[Monomial, int | Fraction] = {}
    for monomial, coefficient in truth.terms.items():
        rest = tuple(atom for atom in monomial if atom not in factors)
        found[rest] = found.get(rest, 0) + coefficient
    return Poly({rest: coefficient for rest, coefficient in found.items() if coefficient})


def _groups(tests: Sequence[tuple[Slopes, Poly]]) -> Iterator[tuple[Sequence[Symbol], list[tuple[Slopes, Poly]]]]:
    """Group the inequalities that share an index."""
    left = list(tests)
    while left:
        indices, group = dict(left[0][0]), list[tuple[Slopes, Poly]]()
        while found := [test for test in left if indices.keys() & test[0].keys()]:
            group += found
            left = [test for test in left if test not in found]
            indices.update({index: slope for test in found for index, slope in test[0].items()})
        yield list(indices), group


def _bounded(indices: Sequence[Symbol], tests: Sequence[tuple[Slopes, Poly]], slopes: Slopes) -> ActiveRange | None:
    """Return the range of the indices' part of the offset where the tests hold.

    The part must be a multiple of an inner value that takes every integer of a range, and each test must bound that value.
    """
    inner = _inner(indices, tests[0][0])
    ends = None if inner is None else _every_integer(inner)
    if inner is None or ends is None:
        return None
    low, high = ends
    for shape, constant in tests:
        times = _ratio(shape, inner)
        number = None if times is None else times.constant
        if number is None:
            return None
        if number < 0:
            high = least(high, floor_div(constant, poly(-number)))
        else:
            low = greatest(low, -floor_div(constant, poly(number)))
    step = _ratio(slopes, inner)
    found = None if step is None else _scaled(step, low, high)
    number = (high - low).constant
    if found is None or (number is not None and number < 0):
        return None
    return ActiveRange(*found, () if nonnegative(high - low) else (high - low,))


def _scaled(step: Poly, low: Poly, high: Poly) -> Interval | None:
    """Return the ends of a multiple; None where the sign of `step` is unknown."""
    if nonnegative(step):
        return step * low, step * high
    return (step * high, step * low) if nonnegative(-step) else None


def _inner(indices: Sequence[Symbol], slopes: Slopes) -> Slopes | None:
    """Return the slopes divided by the least constant one, so that one is 1."""
    numbers = [abs(Fraction(slope.constant)) for slope in slopes.values() if slope.constant]
    if not numbers or len(slopes) != len(indices):
        return None
    sign = -1 if any((slope.constant or 0) < 0 for slope in slopes.values()) else 1
    return {index: slope * (sign / min(numbers)) for index, slope in slopes.items()}


def _every_integer(slopes: Slopes) -> Interval | None:
    """Return the ends of a sum of indices that takes every integer between.

    It does where each slope is at most one more than what the finer indices reach, as digits of a number are.
    """
    left, low, reach = dict(slopes), ZERO, ZERO
    while left:
        fits = [index for index, slope in left.items() if nonnegative(slope - 1) and nonnegative(reach + 1 - slope)]
        if not fits:
            return None
        slope = left.pop(fits[0])
        ends = interval(poly(fits[0]))
        if ends is None:
            return None
        low, reach = low + slope * ends[0], reach + slope * (ends[1] - ends[0])
    return low, low + reach


def _ratio(slopes: Slopes, inner: Slopes) -> Poly | None:
    """Return the factor between two sets of slopes; None where they differ otherwise."""
    unit = next(index for index, slope in inner.items() if slope == ONE)
    factor = slopes.get(unit, ZERO)
    alike = slopes.keys() == inner.keys() and all(slopes[index] == factor * slope for index, slope in inner.items())
    return factor if alike else None


def _affine(value: Poly) -> tuple[Slopes, Poly] | None:
    """Return the slope of each index and the rest; None for another expression."""
    terms: dict[Symbol | None, dict[Monomial, int | Fraction]] = {}
    for factors, coefficient in value.terms.items():
        indices = [atom for atom in factors if isinstance(atom, Symbol) and atom.upper is not None]
        others = tuple(atom for atom in factors if atom not in indices)
        if len(indices) > 1 or any(map(_depends, others)):
            return None
        terms.setdefault(indices[0] if indices else None, {})[others] = coefficient
    constant = Poly(terms.pop(None, {}))
    return {index: Poly(found) for index, found in terms.items() if index is not None}, constant


def _depends(atom: Atom) -> bool:
    """Return whether an atom varies with an index or with data."""
    if isinstance(atom, Symbol):
        return atom.upper is not None
    return isinstance(atom, Unknown) or any(_depends(inner) for part in parts(atom) for inner in part.atoms)


def _has_fixed_bounds(index: Symbol) -> bool:
    return not any(_depends(atom) for bound in (index.lower, index.upper) if bound is not None for atom in bound.atoms)


__all__ = ["ActiveRange", "active_range", "conjunctions"]
