"""Consecutive reductions as programs.

They are examples with a known answer, and undecided ones.

Results are named before they are returned, since the analysis names a reduction as its variable.
"""

# ruff: noqa: RET504

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ioaware.analysis.fusion.answer import fuse
from ioaware.fusion import (
    absolute,
    exp,
    length,
    log,
    reduce_max,
    reduce_mean,
    reduce_sum,
    relu,
    rint,
    sigmoid,
    softplus,
    sqrt,
)

answer = cache(fuse)
"""The answer for a program, found once."""


def softmax_denominator(x: Any) -> Any:
    m = reduce_max(x)
    return reduce_sum(exp(x - m))


def attention(x: Any, v: Any) -> Any:
    m = reduce_max(x)
    l = reduce_sum(exp(x - m))  # noqa: E741
    o = reduce_sum(exp(x - m) / l * v)
    return o


def flash_decoding(x: Any, v: Any) -> Any:
    m = reduce_max(x)
    lse = m + log(reduce_sum(exp(x - m)))
    o = reduce_sum(exp(x - lse) * v)
    return o, lse


def squared_deviations(x: Any) -> Any:
    mu = reduce_sum(x) / length(x)
    m2 = reduce_sum((x - mu) ** 2)
    return m2


def logsoftmax_attention(x: Any, v: Any) -> Any:
    m = reduce_max(x)
    lse = m + log(reduce_sum(exp(x - m)))
    o = reduce_sum((x - lse) * v)
    return o


def entropy(x: Any) -> Any:
    m = reduce_max(x)
    lse = m + log(reduce_sum(exp(x - m)))
    h = reduce_sum(exp(x - lse) * (x - lse))
    return -h


def layer_norm_dot(x: Any, w: Any) -> Any:
    mu = reduce_mean(x)
    sg = sqrt(reduce_mean((x - mu) ** 2) + 1e-5)
    o = reduce_sum((x - mu) * w / sg)
    return o


def absmax_dot(x: Any, w: Any) -> Any:
    al = reduce_max(abs(x))
    o = reduce_sum(x * w / al)
    return o


def softmax_variance(x: Any, v: Any) -> Any:
    m = reduce_max(x)
    l = reduce_sum(exp(x - m))  # noqa: E741
    mu = reduce_sum(exp(x - m) * v) / l
    o = reduce_sum(exp(x - m) / l * (v - mu) ** 2)
    return o


def shifted_maximum(x: Any, y: Any) -> Any:
    m = reduce_max(x)
    o = reduce_max(x + y - m)
    return o


def top_probability(x: Any) -> Any:
    m = reduce_max(x)
    l = reduce_sum(exp(x - m))  # noqa: E741
    o = reduce_max(exp(x - m) / l)
    return o


def largest_deviation(x: Any) -> Any:
    mu = reduce_mean(x)
    o = reduce_max(absolute(x - mu))
    return o


FUSABLE: dict[Callable[..., Any], tuple[int, int]] = {
    softmax_denominator: (2, 2),
    attention: (3, 3),
    flash_decoding: (3, 3),
    squared_deviations: (2, 3),
    logsoftmax_attention: (3, 4),
    entropy: (3, 3),
    layer_norm_dot: (3, 5),
    absmax_dot: (2, 2),
    softmax_variance: (3, 4),
    shifted_maximum: (2, 2),
    top_probability: (3, 3),
    largest_deviation: (2, 4),
}
"""Passes as written, and numbers of the state."""


def softplus_of_max(x: Any) -> Any:
    m = reduce_max(x)
    return reduce_sum(softplus(x - m))


def sigmoid_of_mean(x: Any) -> Any:
    mu = reduce_mean(x)
    return reduce_sum(sigmoid(x - mu))


def exponential_of_ratio(x: Any) -> Any:
    sg = sqrt(reduce_mean((x - reduce_mean(x)) ** 2))
    return reduce_sum(exp(x / sg))


def relu_of_mean(x: Any) -> Any:
    mu = reduce_mean(x)
    return reduce_sum(relu(x - mu))


def absolute_deviation(x: Any) -> Any:
    mu = reduce_mean(x)
    return reduce_sum(abs(x - mu))


def rounded_dot(x: Any, w: Any) -> Any:
    al = reduce_max(abs(x))
    return reduce_sum(rint(8 * x / al) * w)


IMPOSSIBLE: dict[Callable[..., Any], str] = {
    softplus_of_max: "branch point at x = pi*i + m",
    sigmoid_of_mean: "pole at x = ",
    exponential_of_ratio: "exponent that moves with sg",
    relu_of_mean: "kink where",
    absolute_deviation: "kink where",
    rounded_dot: "jump where",
}
"""What of each map moves with a parameter."""


def maximum_of_sigmoids(x: Any) -> Any:
    """A maximum, which is refuted differently from a sum."""
    mu = reduce_mean(x)
    return reduce_max((x - mu) * sigmoid(x - mu))


def growing_parameter(x: Any) -> Any:
    """The parameter is a sum that grows with the number of elements.

    x/(x - t) has a pole among them.
    """
    t = reduce_sum(x * x)
    return reduce_sum(1 / (x - t))


UNDECIDED = (maximum_of_sigmoids, growing_parameter)
