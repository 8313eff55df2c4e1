"""Compute exact ratios of integers at one point or many.

They are computed in int64 that widens before it could overflow.

A column stores bounds of its values. Some questions are decided by bounds alone: whether a sum could overflow, which of two
values is larger, whether a divisor may be 0.
"""

from __future__ import annotations

from collections.abc import Callable
from math import lcm
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Number: TypeAlias = int | Array
INT64_MAX = 2**63 - 1


class Column:
    """Integers of many points: int64, or Python ints where they do not fit.

    All in `low` .. `high`.
    """

    __slots__ = ("high", "low", "values")

    def __init__(self, values: Array, low: int, high: int) -> None:
        self.values, self.low, self.high = values, low, high

    def taken(self, at: Array) -> Column:
        """Return the integers at some places."""
        return Column(self.values[at], self.low, self.high)


Whole: TypeAlias = int | Column
Ratio: TypeAlias = tuple[Whole, Whole]  # numerator, denominator > 0
Truth: TypeAlias = bool | Array


def column(values: Array) -> Column:
    """Return integers as a column, in 64 bits where they fit."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    fits = low >= -INT64_MAX and high <= INT64_MAX
    return Column(values.astype(np.int64 if fits else object, copy=False), low, high)


def _bounds(x: Whole) -> tuple[int, int]:
    return (x, x) if isinstance(x, int) else (x.low, x.high)


def _numpy(x: Whole) -> Any:
    """Return an operand that numpy computes with exactly.

    It would round 2**63 to a float.
    """
    if not isinstance(x, int):
        return x.values
    return x if abs(x) <= INT64_MAX else np.asarray(x, object)


def _tight(x: Whole) -> Whole:
    return x if isinstance(x, int) else column(x.values)


def _wide(x: Whole) -> Whole:
    return x if isinstance(x, int) else Column(x.values.astype(object, copy=False), x.low, x.high)


def _combined(x: Whole, y: Whole, what: Callable[[Any, Any], Any], bounds: Callable[[Whole, Whole], tuple[int, int]]) -> Column:
    """Apply an operation with results in `bounds`, in 64 bits where they fit.

    It is applied in Python ints otherwise.
    """
    low, high = bounds(x, y)
    if low < -INT64_MAX or high > INT64_MAX:
        x, y = _tight(x), _tight(y)
        low, high = bounds(x, y)
        if low < -INT64_MAX or high > INT64_MAX:
            x, y = _wide(x), _wide(y)
    return Column(what(_numpy(x), _numpy(y)), low, high)


def _of_product(x: Whole, y: Whole) -> tuple[int, int]:
    (a, b), (c, d) = _bounds(x), _bounds(y)
    ends = (a * c, a * d, b * c, b * d)
    return min(ends), max(ends)


def _of_sum(x: Whole, y: Whole) -> tuple[int, int]:
    (a, b), (c, d) = _bounds(x), _bounds(y)
    return a + c, b + d


def times(x: Whole, y: Whole) -> Whole:
    """Return the product."""
    if isinstance(x, int):
        if isinstance(y, int):
            return x * y
        if x in (0, 1):
            return y if x else 0
    elif isinstance(y, int) and y in (0, 1):
        return x if y else 0
    return _combined(x, y, lambda a, b: a * b, _of_product)


def plus(x: Whole, y: Whole) -> Whole:
    """Return the sum."""
    if isinstance(x, int):
        if isinstance(y, int):
            return x + y
        if x == 0:
            return y
    elif isinstance(y, int) and y == 0:
        return x
    return _combined(x, y, lambda a, b: a + b, _of_sum)


def _negative(x: Whole) -> Whole:
    return -x if isinstance(x, int) else Column(-x.values, -x.high, -x.low)


def _floor_divide(x: Whole, y: Whole) -> Whole:
    """Return floor(x / y), y > 0."""
    if isinstance(y, int):
        if isinstance(x, int):
            return x // y
        if y == 1:
            return x
        low, high = x.low // y, x.high // y
        if low == high:
            return low
        if x.values.dtype == np.int64 and y & (y - 1) == 0:
            return Column(x.values >> (y.bit_length() - 1), low, high)
        return Column(x.values // _numpy(y), low, high)
    (low, high), least, most = _bounds(x), max(y.low, 1), max(y.high, 1)
    ends = low // (least if low < 0 else most), high // (most if high < 0 else least)
    return ends[0] if ends[0] == ends[1] else Column(_numpy(x) // _numpy(y), *ends)


def integer(ratio: Ratio, what: object) -> Whole:
    """Return the value of a ratio that divides exactly. Raises `ValueError` otherwise."""
    numerator, denominator = ratio
    if isinstance(denominator, int) and denominator == 1:
        return numerator
    quotient = _floor_divide(numerator, denominator)
    if np.any(_numpy(times(quotient, denominator)) != _numpy(numerator)):
        raise ValueError(f"not an integer at these values: {what}")
    return quotient


def _same(x: Whole, y: Whole) -> bool:
    return x is y or (isinstance(x, int) and isinstance(y, int) and x == y)


def add(x: Ratio, y: Ratio) -> Ratio:
    (a, b), (c, d) = x, y
    if _same(b, d):
        return plus(a, c), b
    if isinstance(b, int) and isinstance(d, int):
        shared = lcm(b, d)
        return plus(times(a, shared // b), times(c, shared // d)), shared
    return plus(times(a, d), times(c, b)), times(b, d)


def multiply(x: Ratio, y: Ratio) -> Ratio:
    return times(x[0], y[0]), times(x[1], y[1])


def invert(x: Ratio) -> Ratio:
    numerator, denominator = x
    low, high = _bounds(numerator)
    if low > 0:
        return denominator, numerator
    if high < 0:
        return _negative(denominator), _negative(numerator)
    if isinstance(numerator, int) or np.any(numerator.values == 0):
        raise ZeroDivisionError("a formula divides by zero at these values")
    most = max(-low, high)
    return times(denominator, Column(np.sign(numerator.values), -1, 1)), Column(abs(numerator.values), 1, most)


def floor(x: Ratio) -> Ratio:
    return _floor_divide(x[0], x[1]), 1


def ceiling(x: Ratio) -> Ratio:
    return _negative(_floor_divide(_negative(x[0]), x[1])), 1


def mod(x: Ratio, y: Ratio) -> Ratio:
    """Return x - y floor(x/y): the sign of y, as in Python and sympy."""
    quotient, one = floor(multiply(x, invert(y)))
    return add(x, multiply(y, (times(-1, quotient), one)))


def _cross(x: Ratio, y: Ratio) -> tuple[Whole, Whole]:
    """Return two numbers ordered as the ratios are; denominators are positive."""
    (a, b), (c, d) = x, y
    return (a, c) if _same(b, d) else (times(a, d), times(c, b))


def compare(x: Ratio, y: Ratio, how: Callable[[Any, Any], Any]) -> Truth:
    """Apply `how` to two numbers that are ordered as the ratios are."""
    left, right = _cross(x, y)
    found = how(_numpy(left), _numpy(right))
    return bool(found) if isinstance(left, int) and isinstance(right, int) else found


def holds(x: Ratio) -> Ratio:
    """Return 1 where the ratio is not negative, else 0."""
    numerator = x[0]
    low, high = _bounds(numerator)
    if low >= 0 or high < 0:
        return int(low >= 0), 1
    return Column((_numpy(numerator) >= 0).astype(np.int64), 0, 1), 1


def larger(x: Ratio, y: Ratio) -> Ratio:
    return _extreme(x, y, largest=True)


def smaller(x: Ratio, y: Ratio) -> Ratio:
    return _extreme(x, y, largest=False)


def _extreme(x: Ratio, y: Ratio, *, largest: bool) -> Ratio:
    left, right = _cross(x, y)
    (a, b), (c, d) = _bounds(left), _bounds(right)
    if a >= d:
        return x if largest else y
    if b <= c:
        return y if largest else x
    if _same(x[1], y[1]):
        ends = (max(a, c), max(b, d)) if largest else (min(a, c), min(b, d))
        return Column((np.maximum if largest else np.minimum)(_numpy(left), _numpy(right)), *ends), x[1]
    choose = _numpy(left) >= _numpy(right) if largest else _numpy(left) <= _numpy(right)
    return _where(choose, x[0], y[0]), _where(choose, x[1], y[1])


def _where(choose: Array, x: Whole, y: Whole) -> Whole:
    if _same(x, y):
        return x
    (a, b), (c, d) = _bounds(x), _bounds(y)
    where: Any = np.where
    return Column(where(choose, _numpy(x), _numpy(y)), min(a, c), max(b, d))
