"""Fit powers and compare them with a theorem's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ioaware.analysis.theory.claims.claim import Exponent, Number, Verdict
from ioaware.analysis.theory.power_law_fit import fit_power_law

SLACK = 0.005
"""Tolerance added to the confidence interval of a power.

Counters carry systematic errors of 0.1 %.
"""
WIDEST = 0.2
"""Widest interval that decides anything."""

Sample = tuple[Mapping[str, int], Number | None]
"""The values of the variables at a point, and what was observed there."""


def fit_exponents(
    quantity: str, powers: Mapping[str, float], samples: Sequence[Sample], *, judged: bool = True
) -> Iterator[Exponent]:
    """Fit all variables of `powers` at once, one row each.

    `judged` False shows a power without a verdict.

    A missing number, too few points, or variables that do not vary leave the rows inconclusive; a NaN fails them.
    """
    observed = [value for _, value in samples if value is not None]
    impossible = any(not (value > 0 and math.isfinite(value)) for value in observed)  # no power law goes there
    law = None
    if not impossible and len(observed) == len(samples) and fittable(powers, [at for at, _ in samples]):
        law = fit_power_law({name: [at[name] for at, _ in samples] for name in powers}, observed)
    for name, expected in powers.items():
        if law is None:
            verdict = "not judged" if not judged else "fails" if impossible else "inconclusive"
            yield Exponent(quantity, name, None, None, None, expected, len(observed), verdict)
        else:
            power = law.exponents[name]
            verdict = judge_interval(power.low, power.high, expected) if judged else "not judged"
            yield Exponent(quantity, name, power.value, power.low, power.high, expected, law.points, verdict)


def fittable(powers: Mapping[str, float], points: Sequence[Mapping[str, int]]) -> bool:
    """Return whether points can separate the powers.

    There must be enough distinct ones, with every variable varying.
    """
    places = {tuple(at[name] for name in powers) for at in points}
    if len(places) < len(powers) + 2:
        return False
    logs = [[1.0, *(math.log(value) for value in place)] for place in places]
    return int(np.linalg.matrix_rank(np.array(logs))) == len(powers) + 1


def judge_interval(low: float, high: float, expected: float) -> Verdict:
    """Return the verdict on a fitted interval; a NaN fails."""
    if not low - SLACK <= expected <= high + SLACK:
        return "fails"
    return "holds" if high - low <= WIDEST else "inconclusive"
