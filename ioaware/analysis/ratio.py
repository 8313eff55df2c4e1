"""Exact ratios of integers, one point or many: Python ints, or int64 arrays that widen before they could overflow."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Number: TypeAlias = int | Array
Ratio: TypeAlias = tuple[Number, Number]  # numerator, denominator > 0

INT64_MAX = 2**63 - 1


def peak(x: Number) -> int:
    """The largest magnitude in x, at least 1."""
    if isinstance(x, int):
        return max(abs(x), 1)
    return max(abs(int(x.max())), abs(int(x.min())), 1) if x.size else 1


def _widen(x: Number) -> Number:
    return x if isinstance(x, int) else x.astype(object)


def narrow(x: Number) -> Number:
    """Back to int64 where everything fits."""
    return x.astype(np.int64) if not isinstance(x, int) and x.dtype == object and peak(x) <= INT64_MAX else x


def _times(x: Number, y: Number) -> Number:
    if isinstance(x, int) and isinstance(y, int):
        return x * y
    return _widen(x) * _widen(y) if peak(x) * peak(y) > INT64_MAX else x * y


def _plus(x: Number, y: Number) -> Number:
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    return _widen(x) + _widen(y) if peak(x) + peak(y) > INT64_MAX else x + y


def _lift(x: Number, beside: Number) -> Number:
    """An int beside an array, safe for one numpy operation: numpy would round 2**63 to a float without a word."""
    large = isinstance(x, int) and not isinstance(beside, int) and abs(x) > INT64_MAX
    return np.asarray(x, object) if large else x


def _floor_divide(x: Number, y: Number) -> Number:
    return _lift(x, y) // _lift(y, x)


def _is_one(x: Number) -> bool:
    return isinstance(x, int) and x == 1


def integer(ratio: Ratio, what: object) -> Number:
    """The value of a ratio that divides exactly. Raises `ValueError` otherwise."""
    numerator, denominator = ratio
    if _is_one(denominator):
        return numerator
    quotient = _floor_divide(numerator, denominator)
    if np.any(_times(quotient, denominator) != numerator):
        raise ValueError(f"not an integer at these values: {what}")
    return quotient


def add(x: Ratio, y: Ratio) -> Ratio:
    (a, b), (c, d) = x, y
    if b is d or (_is_one(b) and _is_one(d)):
        return _plus(a, c), b
    return _plus(_times(a, d), _times(c, b)), _times(b, d)


def multiply(x: Ratio, y: Ratio) -> Ratio:
    return _times(x[0], y[0]), _times(x[1], y[1])


def invert(x: Ratio) -> Ratio:
    numerator, denominator = x
    if np.any(numerator == 0):
        raise ZeroDivisionError("a formula divides by zero at these values")
    if isinstance(numerator, int):
        return (denominator, numerator) if numerator > 0 else (_times(-1, denominator), -numerator)
    return _times(denominator, np.sign(numerator)), abs(numerator)


def floor(x: Ratio) -> Ratio:
    return _floor_divide(x[0], x[1]), 1


def ceiling(x: Ratio) -> Ratio:
    return -_floor_divide(-x[0], x[1]), 1


def mod(x: Ratio, y: Ratio) -> Ratio:
    """x - y floor(x/y): the sign of y, as in Python and sympy."""
    quotient, one = floor(multiply(x, invert(y)))
    return add(x, multiply(y, (_times(-1, quotient), one)))


def cross(x: Ratio, y: Ratio) -> tuple[Number, Number]:
    """Two numbers ordered as the ratios are: denominators are positive."""
    (a, b), (c, d) = x, y
    return (a, c) if _is_one(b) and _is_one(d) else (_times(a, d), _times(c, b))


def larger(x: Ratio, y: Ratio) -> Ratio:
    left, right = cross(x, y)
    return _select(left >= right, x, y)


def smaller(x: Ratio, y: Ratio) -> Ratio:
    left, right = cross(x, y)
    return _select(left <= right, x, y)


def _select(choose: bool | Array, x: Ratio, y: Ratio) -> Ratio:
    if isinstance(choose, bool):
        return x if choose else y
    numerator = np.where(choose, _lift(x[0], choose), _lift(y[0], choose))
    if _is_one(x[1]) and _is_one(y[1]):
        return numerator, 1
    return numerator, np.where(choose, _lift(x[1], choose), _lift(y[1], choose))
