"""Write programs for `ioaware.fuse`.

They are elementwise functions and reductions over sequences of one length.

    from ioaware.fusion import exp, reduce_max, reduce_sum

    def attention(x, v):
        m = reduce_max(x)
        l = reduce_sum(exp(x - m))
        return reduce_sum(exp(x - m) / l * v)

Every function also takes numpy arrays, so that a program can be run as it is written: `attention(scores, values)`.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "absolute",
    "exp",
    "length",
    "log",
    "maximum",
    "minimum",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_sum",
    "relu",
    "rint",
    "sigmoid",
    "softplus",
    "sqrt",
    "square",
    "tanh",
]


def exp(value: Any) -> Any:
    """Return e to the power of each element."""
    return _elementwise("exp", value)


def log(value: Any) -> Any:
    """Return the natural logarithm of each element."""
    return _elementwise("log", value)


def sqrt(value: Any) -> Any:
    """Return the square root of each element."""
    return _elementwise("sqrt", value)


def square(value: Any) -> Any:
    """Return each element times itself."""
    return value * value


def absolute(value: Any) -> Any:
    """Return the absolute value of each element, as `abs` does."""
    return _elementwise("absolute", value)


def rint(value: Any) -> Any:
    """Return the nearest integer of each element, ties to even, as `round` does."""
    return _elementwise("rint", value)


def sigmoid(value: Any) -> Any:
    """Return 1 / (1 + exp(-value)) of each element."""
    return 1 / (1 + exp(-value))


def softplus(value: Any) -> Any:
    """Return log(1 + exp(value)) of each element."""
    return log(1 + exp(value))


def tanh(value: Any) -> Any:
    """Return the hyperbolic tangent of each element."""
    return 2 / (1 + exp(-2 * value)) - 1


def relu(value: Any) -> Any:
    """Return each element, or 0 where it is negative."""
    return maximum(value, 0)


def maximum(left: Any, right: Any) -> Any:
    """Return the larger of two values, element by element."""
    return _elementwise("maximum", left, right)


def minimum(left: Any, right: Any) -> Any:
    """Return the smaller of two values, element by element."""
    return _elementwise("minimum", left, right)


def reduce_max(sequence: Any) -> Any:
    """Return the largest element of a sequence."""
    return _reduce("max", sequence)


def reduce_min(sequence: Any) -> Any:
    """Return the smallest element of a sequence."""
    return _reduce("min", sequence)


def reduce_sum(sequence: Any) -> Any:
    """Return the sum of a sequence."""
    return _reduce("sum", sequence)


def reduce_mean(sequence: Any) -> Any:
    """Return the mean of a sequence: its sum over its length."""
    return reduce_sum(sequence) / length(sequence)


def length(sequence: Any) -> Any:
    """Return how many elements a sequence has: the sum of ones."""
    return _reduce("sum", 0 * sequence + 1)


def _elementwise(name: str, *values: Any) -> Any:
    for value in values:
        if traced := getattr(value, "traced_elementwise", None):
            return traced(name, values)
    import numpy as np

    return getattr(np, name)(*values)


def _reduce(name: str, value: Any) -> Any:
    if traced := getattr(value, "traced_reduction", None):
        return traced(name)
    import numpy as np

    return getattr(np, name)(value)
