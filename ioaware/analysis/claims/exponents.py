"""Fitted powers beside the powers a theorem gives, with the rule that decides whether they agree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ioaware.analysis.claims.claim import Exponent, Number, Verdict
from ioaware.analysis.fit import fit_power_law

SLACK = 0.005
"""A power is met when it lies within its confidence interval widened by this: counters carry systematic errors of 0.1 %."""
WIDEST = 0.2
"""An interval wider than this decides nothing, whatever it contains."""

Sample = tuple[Mapping[str, int], Number | None]
"""The values of the variables at a point, and what was observed there."""


def fit_exponents(
    quantity: str, powers: Mapping[str, float], samples: Sequence[Sample], *, judged: bool = True
) -> Iterator[Exponent]:
    """One row per variable of `powers`, all fitted at once. With `judged` False the power is shown, not held against theory.

    A missing number, too few points, or variables that do not vary leave the rows inconclusive; a NaN fails them.
    """
    observed = [value for _, value in samples if value is not None]
    distinct = len({tuple(at[name] for name in powers) for at, _ in samples})
    law, unfitted = None, _verdict_without_fit(observed)
    if unfitted is None and len(observed) == len(samples) and distinct >= len(powers) + 2:
        variables = {name: [at[name] for at, _ in samples] for name in powers}
        try:
            law = fit_power_law(variables, observed)
        except ValueError:  # variables that do not vary, or only together
            law = None
    for name, expected in powers.items():
        if law is None:
            verdict = unfitted or "inconclusive"
            yield Exponent(quantity, name, None, None, None, expected, len(observed), verdict if judged else "not judged")
        else:
            power = law.exponents[name]
            verdict = judge_interval(power.low, power.high, expected) if judged else "not judged"
            yield Exponent(quantity, name, power.value, power.low, power.high, expected, law.points, verdict)


def judge_interval(low: float, high: float, expected: float) -> Verdict:
    """Written so that a NaN fails."""
    if not low - SLACK <= expected <= high + SLACK:
        return "fails"
    return "holds" if high - low <= WIDEST else "inconclusive"


def _verdict_without_fit(observed: Sequence[Number]) -> Verdict | None:
    """A power law has no place for zero, negative numbers or NaN: whoever observes them does not follow it."""
    return None if all(value > 0 and math.isfinite(value) for value in observed) else "fails"
