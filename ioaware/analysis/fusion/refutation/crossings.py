"""Find data at which an element lies at the kink or jump of a map.

There are proven continuations on either side of it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from ioaware.analysis.fusion.expressions.arithmetic import evaluate
from ioaware.analysis.fusion.expressions.interval_arithmetic import has_zero, interval, is_above
from ioaware.analysis.fusion.programs.program import Reduction
from ioaware.analysis.fusion.refutation.samples import NUMBERS, Sample, Span
from ioaware.analysis.fusion.refutation.singularities import Moving

BISECTIONS = 60
FAR = Fraction(8)


def find_crossing(root: Reduction, moving: Moving, sample: Sample) -> Sample | None:
    """Return data with the first element at the kink or jump, and a continuation.

    The continuation is within proven spans.

    The continuation goes along a line on which the crossing expression changes sign. None where no change is found.
    """
    low, high = Fraction(0), Fraction(1)
    first, last = (_crossing_value(root, moving, _along(sample, moving, end, end)) for end in (low, high))
    target = _between(first, last, jumps=moving.is_jump)
    if target is None:
        return None
    rises = is_above(last, first)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        value = _crossing_value(root, moving, _along(sample, moving, middle, middle))
        if has_zero(value - target):
            return None
        low, high = (middle, high) if is_above(target, value) == rises else (low, middle)
    both = _along(sample, moving, low, high)
    if has_zero(_value(root, moving.nonzero, both)):
        return None
    zero = interval(Fraction(0))
    return both if all(is_above(_value(root, part, both), zero) for part in moving.positive) else None


def _along(sample: Sample, moving: Moving, low: Fraction, high: Fraction) -> Sample:
    """Return the sample with its continuation at a part of the line.

    The part is from far below to far above, or growing for a jump.
    """

    def span(start: Fraction, end: Fraction) -> Span:
        ends = (start + low * (end - start), start + high * (end - start))
        return min(ends), max(ends)

    far = FAR * len(sample.seen)
    continuation = tuple(
        {
            name: span(value, 4 * value) if moving.is_jump else span(value - far, value + far * 5 / 4)
            for name, (value, _) in element.items()
        }
        for element in sample.continuation
    )
    return Sample(sample.program, sample.seen, continuation)


def _crossing_value(root: Reduction, moving: Moving, sample: Sample) -> Any:
    return _value(root, moving.crossing, sample)


def _value(root: Reduction, expr: Any, sample: Sample) -> Any:
    """Return the interval of an expression of the first element and parameters.

    The parameters are the root's.
    """
    scope = {p.symbol: sample.value(sample.parameter(p)) for p in sample.program.parameters_in(root.body)}
    return evaluate(expr, scope | {name: interval(value) for name, value in sample.seen[0].items()}, NUMBERS)


def _between(first: Any, last: Any, *, jumps: bool) -> Any | None:
    """Return what is proven to lie between two values.

    This is 0, or half an odd integer for a jump.
    """
    low, high = (first, last) if is_above(last, first) else (last, first)
    target = interval(Fraction(0))
    if jumps:
        whole = Fraction(int(float(low.mid) // 1))
        target = interval(whole + Fraction(3, 2))
    return target if is_above(target, low) and is_above(high, target) else None
