"""Power laws fitted by least squares in logarithms.

They are y = C x1^a1 x2^a2 ..., with Student-t confidence intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Logarithms and least squares in doubles are good to about this much; an interval narrower than it (exact data leave
# no residual) would exclude the true value by rounding alone.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Exponent:
    """A fitted exponent and its confidence interval, ends included."""

    value: float
    low: float
    high: float

    def contains(self, exponent: float) -> bool:
        """Return whether the data are compatible with this exponent; False for NaN."""
        return self.low <= exponent <= self.high


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """y = coefficient * product of x^exponents[x], fitted to points.

    `r_squared` is of the logarithms, over `points` points.
    """

    exponents: Mapping[str, Exponent]
    coefficient: float
    r_squared: float
    points: int
    confidence: float


def fit_power_law(variables: Mapping[str, Sequence[float]], measured: Sequence[float], *, confidence: float = 0.95) -> PowerLaw:
    """Fit all exponents at once to `measured`, one value of each variable per point.

    The interval is that of ordinary least squares with independent errors of equal variance in log y, with
    points - variables - 1 degrees of freedom. Raises `ValueError` for lengths that differ, values that are not positive and
    finite, or fewer points than variables + 2. It also does for a variable that does not vary, or variables that vary
    together.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    points, count = len(measured), len(variables)
    if count == 0:
        raise ValueError("no variable to fit")
    if points < count + 2:
        raise ValueError(f"{points} points cannot give {count} exponents and their intervals: at least {count + 2} are needed")
    y = _logarithms("measured", measured, points)
    x = np.column_stack([_logarithms(name, values, points) for name, values in variables.items()])
    centre, mean = x.mean(axis=0), float(y.mean())
    gram_inverse = _gram_inverse(x - centre, tuple(variables))
    slopes: Floats = gram_inverse @ (x - centre).T @ (y - mean)
    residual = float(np.sum((y - mean - (x - centre) @ slopes) ** 2))
    total = float(np.sum((y - mean) ** 2))
    degrees = points - count - 1
    half = student_t(confidence, degrees) * np.sqrt(residual / degrees * np.diag(gram_inverse)) + ROUNDING * (1 + abs(slopes))
    return PowerLaw(
        exponents={
            name: Exponent(float(slope), float(slope - width), float(slope + width))
            for name, slope, width in zip(variables, slopes, half, strict=True)
        },
        coefficient=_exponential(mean - float(centre @ slopes)),
        r_squared=_r_squared(residual, total, points),
        points=points,
        confidence=confidence,
    )


def _logarithms(name: str, values: Sequence[float], points: int) -> Floats:
    if len(values) != points:
        raise ValueError(f"{name} has {len(values)} values for {points} points")
    for value in values:
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive and finite for a power law, not {value!r}")
    return np.array([math.log(value) for value in values])


def _gram_inverse(centred: Floats, names: tuple[str, ...]) -> Floats:
    """Return the inverse of X^T X, for slopes and variances.

    Columns are scaled so that rank is meaningful.
    """
    spread = np.sqrt(np.sum(centred**2, axis=0))
    for name, width in zip(names, spread, strict=True):
        if width <= ROUNDING * len(centred):
            raise ValueError(f"{name} does not vary: its exponent cannot be fitted")
    _, singular, basis = np.linalg.svd(centred / spread, full_matrices=False)
    if singular[-1] < 1e-8 * singular[0]:
        raise ValueError(f"{', '.join(names)} vary together: their exponents cannot be separated")
    scaled: Floats = (basis.T / singular**2) @ basis
    return scaled / np.outer(spread, spread)


def _r_squared(residual: float, total: float, points: int) -> float:
    """Return 1 - residual / total; 1 for an exact fit of a constant."""
    return 1.0 if residual <= points * ROUNDING**2 else 1 - residual / total


def _exponential(logarithm: float) -> float:
    try:
        return math.exp(logarithm)
    except OverflowError:
        return math.inf


@lru_cache(maxsize=256)
def student_t(confidence: float, degrees: int) -> float:
    """Return the two-sided quantile: |t| stays below it with probability `confidence`."""
    import mpmath

    special: Any = mpmath

    def outside(t: float) -> float:
        return float(special.betainc(degrees / 2, 0.5, 0, degrees / (degrees + t * t), regularized=True))

    low, high = 0.0, 1.0
    while outside(high) > 1 - confidence:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if outside(middle) > 1 - confidence else (low, middle)
    return high
