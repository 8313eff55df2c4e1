"""Programs whose maps must be written differently before a finite state is found.

Singular functions cancel in them, or their sign is known from a maximum or minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ioaware.fusion import (
    absolute,
    exp,
    maximum,
    minimum,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_sum,
    relu,
    sigmoid,
    softplus,
)


def always_zero(x: Any) -> Any:
    """0 for all data, since no element exceeds the maximum."""
    m = reduce_max(x)
    return reduce_sum(relu(x - m))


def cancelling_sums(x: Any) -> Any:
    """The sum of x - mu, which is 0. Neither sum alone has a finite state."""
    mu = reduce_mean(x)
    return reduce_sum(relu(x - mu)) - reduce_sum(relu(mu - x))


def cancelling_maps(x: Any) -> Any:
    """softplus(u) - softplus(-u) = u, so that the sum is 0."""
    mu = reduce_mean(x)
    return reduce_sum(softplus(x - mu) - softplus(mu - x))


def distance_to_the_maximum(x: Any) -> Any:
    """n m - sum of x, since no element exceeds m."""
    return reduce_sum(absolute(x - reduce_max(x)))


def above_the_minimum(x: Any) -> Any:
    return reduce_sum(relu(x - reduce_min(x)))


def opposite_gates(x: Any) -> Any:
    """sigmoid(u) + sigmoid(-u) = 1."""
    m = reduce_max(x)
    return reduce_sum(sigmoid(x - m) + sigmoid(m - x))


def both_extremes(x: Any) -> Any:
    """The larger and the smaller of two numbers add to their sum."""
    mu = reduce_mean(x)
    return reduce_sum(maximum(x, mu) + minimum(x, mu))


def both_extremes_multiplied(x: Any) -> Any:
    mu = reduce_mean(x)
    return reduce_sum(maximum(x, mu) * minimum(x, mu))


def normalised_gates(x: Any) -> Any:
    """The quotients by their own sum add to 1."""
    mu = reduce_mean(x)
    return reduce_sum(sigmoid(x - mu) / reduce_sum(sigmoid(x - mu)))


def softmax_of_itself(x: Any, v: Any) -> Any:
    """The first result is 1: its denominator is not carried."""
    p = exp(x - reduce_max(x))
    return reduce_sum(p / reduce_sum(p)), reduce_sum(p * v)


def twice_the_positive_part(x: Any, y: Any) -> Any:
    """The weight is positive, so the sign of its product with x - m is known."""
    m = reduce_max(x)
    return reduce_sum(exp(y) * absolute(x - m))


def largest_decreasing(x: Any) -> Any:
    """sigmoid(mu - x) decreases in x: its maximum is at the minimum of x."""
    return reduce_max(sigmoid(reduce_mean(x) - x))


def largest_square(x: Any, v: Any) -> Any:
    """The maximum of squares, used as the parameter of a sum."""
    mu = reduce_mean(x)
    m = reduce_max((x - mu) ** 2)
    return reduce_sum(v * (x - mu) ** 2 / (m + 1))


REWRITTEN: dict[Callable[..., Any], tuple[int, int]] = {
    largest_square: (3, 7),
    always_zero: (2, 1),
    cancelling_sums: (2, 1),
    cancelling_maps: (2, 1),
    distance_to_the_maximum: (2, 3),
    above_the_minimum: (2, 3),
    opposite_gates: (2, 1),
    both_extremes: (2, 2),
    both_extremes_multiplied: (2, 2),
    normalised_gates: (3, 1),
    softmax_of_itself: (3, 2),
    twice_the_positive_part: (2, 3),
    largest_decreasing: (2, 3),
}
"""Passes as written, and numbers of the state."""
