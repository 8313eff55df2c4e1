"""Compute statistics of the rounds.

They are medians, spreads, paired ratios and geometric means.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles."""

    median: float
    p25: float
    p75: float

    @property
    def relative(self) -> float:
        """Half the interquartile range, relative to the median."""
        return (self.p75 - self.p25) / 2 / self.median


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of at least one value."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Spread:
    """Return the spread of ratios of two series with one value per round.

    Why: a clock change affects both values of a round.
    """
    return spread([a / b for a, b in zip(numerators, denominators, strict=True)])


def geometric_mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean of at least one positive ratio."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logs) / len(logs))
