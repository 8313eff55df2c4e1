"""Integers, tensors and pointers of a kernel in numpy.

Division truncates as in Triton.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Number:
    """A scalar or a tensor of integers of sufficient width. Anything else is 0."""

    def __init__(self, data: Any) -> None:
        self.data: Array = np.asarray(data)

    def __bool__(self) -> bool:
        return bool(self.data)

    def __index__(self) -> int:
        return int(self.data)

    def __getitem__(self, at: Any) -> Number:
        return Number(self.data[at])

    def to(self, dtype: type) -> Number:
        return Number(self.data.astype(dtype))

    @property
    def T(self) -> Number:
        return Number(self.data.T)

    def __invert__(self) -> Number:
        return Number(~self.data)

    def __neg__(self) -> Number:
        return Number(-self.data)

    def __rsub__(self, other: Any) -> Number:
        return number(other) - self

    def __rfloordiv__(self, other: Any) -> Number:
        return number(other) // self

    def __rmod__(self, other: Any) -> Number:
        return number(other) % self


def number(value: Any) -> Number:
    return value if isinstance(value, Number) else Number(value)


def quotient(a: Array, b: Array) -> Array:
    """Return the quotient of signed integers as the hardware rounds it."""
    return np.where((a < 0) != (b < 0), -(np.abs(a) // np.abs(b)), np.abs(a) // np.abs(b))


def _operator(function: Callable[[Any, Any], Any]) -> Callable[[Number, Any], Any]:
    def apply(self: Number, other: Any) -> Any:
        if isinstance(other, Pointer):
            return NotImplemented
        a, b = self.data, number(other).data
        if a.dtype == bool and b.dtype == bool and function in (np.add, np.subtract, np.multiply):
            a = a.astype(np.int64)
        return Number(function(a, b))

    return apply


for _names, _function in (
    (("__add__", "__radd__"), np.add), (("__sub__",), np.subtract), (("__mul__", "__rmul__"), np.multiply),
    (("__floordiv__",), quotient), (("__mod__",), lambda a, b: a - b * quotient(a, b)),
    (("__lt__",), np.less), (("__le__",), np.less_equal), (("__gt__",), np.greater), (("__ge__",), np.greater_equal),
    (("__eq__",), np.equal), (("__ne__",), np.not_equal), (("__and__", "__rand__"), np.bitwise_and),
    (("__or__", "__ror__"), np.bitwise_or), (("__xor__",), np.bitwise_xor),
    (("__lshift__",), np.left_shift), (("__rshift__",), np.right_shift),
):  # fmt: skip
    for _name in _names:
        setattr(Number, _name, _operator(_function))


class Pointer:
    """Byte addresses of elements of `width` bytes.

    `integers`: whether the elements are integers.
    """

    def __init__(self, addresses: Any, width: int, integers: bool) -> None:
        self.addresses: Array = np.asarray(addresses)
        self.width, self.integers = width, integers

    def __add__(self, other: Any) -> Pointer:
        return Pointer(self.addresses + number(other).data * self.width, self.width, self.integers)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Pointer:
        return self + (-number(other))

    def __getitem__(self, at: Any) -> Pointer:
        return Pointer(self.addresses[at], self.width, self.integers)
