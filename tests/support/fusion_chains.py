"""Longer chains of reductions: mixes of extremes, weighted moments, products.

Results are named before they are returned, since the analysis names a reduction as its variable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ioaware.fusion import (
    absolute,
    exp,
    length,
    log,
    maximum,
    minimum,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_sum,
    rint,
    sigmoid,
    sqrt,
    tanh,
)


def probabilities(x: Any) -> Any:
    m = reduce_max(x)
    return exp(x - m) / reduce_sum(exp(x - m))


def above_the_least(x: Any, v: Any) -> Any:
    """Maximum, sum, minimum, sum: each uses the one before."""
    p = probabilities(x)
    return reduce_sum((p - reduce_min(p)) * v)


def four_sums(x: Any, v: Any, w: Any) -> Any:
    o = reduce_sum(probabilities(x) * v)
    s = reduce_sum((v - o) ** 2 * w)
    return reduce_sum((v - o) * w) / s


def five_passes(x: Any) -> Any:
    p = probabilities(x)
    q = p / reduce_max(p)
    return reduce_sum(q / reduce_sum(q) * x)


def ratios_of_ratios(x: Any, y: Any) -> Any:
    b = reduce_sum(y / reduce_sum(x))
    return reduce_sum(x * y / b)


def range_scaled(x: Any, w: Any) -> Any:
    low, high = reduce_min(x), reduce_max(x)
    return reduce_sum((x - low) / (high - low) * w)


def smallest_first(x: Any, v: Any) -> Any:
    m = reduce_min(x)
    return reduce_sum(exp(m - x) / reduce_sum(exp(m - x)) * v)


def weighted_variance(x: Any, w: Any) -> Any:
    total = reduce_sum(w)
    mu = reduce_sum(w * x) / total
    return reduce_sum(w * (x - mu) ** 2) / total


def correlation(x: Any, y: Any) -> Any:
    a, b = reduce_mean(x), reduce_mean(y)
    return reduce_sum((x - a) / sqrt(reduce_sum((x - a) ** 2)) * ((y - b) / sqrt(reduce_sum((y - b) ** 2))))


def kurtosis(x: Any) -> Any:
    mu = reduce_mean(x)
    sg = sqrt(reduce_mean((x - mu) ** 2))
    return reduce_mean(((x - mu) / sg) ** 4)


def divergence(x: Any, y: Any) -> Any:
    """Kullback-Leibler divergence of two softmaxes."""
    mx, my = reduce_max(x), reduce_max(y)
    lx, ly = mx + log(reduce_sum(exp(x - mx))), my + log(reduce_sum(exp(y - my)))
    return reduce_sum(exp(x - lx) * ((x - lx) - (y - ly)))


def squared_probabilities(x: Any, v: Any) -> Any:
    return reduce_sum(probabilities(x) ** 2 * v)


def largest_standard_score(x: Any) -> Any:
    mu = reduce_mean(x)
    return reduce_max((x - mu) / sqrt(reduce_mean((x - mu) ** 2)))


def capped_attention(x: Any, v: Any) -> Any:
    y = 30 * tanh(x / 30)
    m = reduce_max(y)
    return reduce_sum(exp(y - m) / reduce_sum(exp(y - m)) * v)


def logarithm_of_a_ratio(x: Any) -> Any:
    return reduce_sum(log((x * x + 1) / (reduce_max(x * x) + 1)))


def product_of_two_softmaxes(x: Any, y: Any) -> Any:
    return reduce_sum(exp(x - reduce_max(x) + y - reduce_max(y)))


def logarithm_of_a_sum(x: Any, v: Any) -> Any:
    """The sum of some blocks is negative, though not that of all elements."""
    return reduce_sum((v - log(reduce_sum(x) + 40)) ** 2)


CHAINS: dict[Callable[..., Any], tuple[int, int]] = {
    above_the_least: (4, 5),
    four_sums: (4, 6),
    five_passes: (5, 4),
    ratios_of_ratios: (3, 3),
    range_scaled: (2, 4),
    smallest_first: (3, 3),
    weighted_variance: (2, 3),
    correlation: (3, 6),
    kurtosis: (3, 5),
    divergence: (3, 5),
    squared_probabilities: (3, 3),
    largest_standard_score: (3, 4),
    capped_attention: (3, 3),
    logarithm_of_a_ratio: (2, 3),
    product_of_two_softmaxes: (2, 3),
    logarithm_of_a_sum: (2, 4),
}
"""Passes as written, and numbers of the state."""


def tanh_of_the_maximum(x: Any, v: Any) -> Any:
    return reduce_sum(tanh(x - reduce_max(x)) * v)


def gated_deviation(x: Any) -> Any:
    u = x - reduce_mean(x)
    return reduce_sum(u * sigmoid(1.7 * u))


def gated_norm(x: Any) -> Any:
    u = x / sqrt(reduce_mean(x * x) + 1e-6)
    return reduce_sum(u * sigmoid(u))


def quantised(x: Any) -> Any:
    step = reduce_max(absolute(x)) / 127
    return reduce_sum(rint(x / step) * step)


def pole_at_the_mean(x: Any) -> Any:
    return reduce_sum(1 / (exp(x) + exp(reduce_mean(x))))


def log_cosh(x: Any) -> Any:
    u = x - reduce_mean(x)
    return reduce_sum(log(exp(u) + exp(-u)))


def pseudo_huber(x: Any) -> Any:
    return reduce_sum(sqrt((x - reduce_mean(x)) ** 2 + 1))


def lorentzian(x: Any) -> Any:
    return reduce_sum(1 / ((x - reduce_max(x)) ** 2 + 4))


def clipped_deviation(x: Any) -> Any:
    return reduce_sum(minimum(maximum(x - reduce_mean(x), -1), 1))


REFUSED = (
    tanh_of_the_maximum, gated_deviation, gated_norm, quantised, pole_at_the_mean, log_cosh, pseudo_huber, lorentzian,
    clipped_deviation,
)  # fmt: skip


def removable_pole(x: Any) -> Any:
    mu = reduce_mean(x)
    return reduce_sum((x * x - mu * mu) / (x - mu))


def shifted_rounding(x: Any) -> Any:
    """round(x + n) = round(x) + n for the count n."""
    return reduce_sum(rint(x + length(x)))


FINITE_WITHOUT_A_RULE = (removable_pole, shifted_rounding)
"""Finite states that no rule finds: a certificate for one would be wrong."""
