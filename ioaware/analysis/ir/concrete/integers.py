"""Apply integer operations of the `arith` dialect to numpy arrays.

They are applied in the arrays' own width, where sums and products wrap around.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def _unsigned(a: Array) -> Array:
    return a.view(np.dtype(f"u{a.dtype.itemsize}")) if a.dtype.kind == "i" else a.astype(np.uint8)


def _as_unsigned(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def apply(a: Array, b: Array) -> Array:
        found = function(_unsigned(a), _unsigned(b))
        return found if found.dtype == bool else found.astype(a.dtype)

    return apply


def divide_toward_zero(a: Array, b: Array) -> Array:
    """Return a / b rounded toward zero; 0 for a division by 0, which is undefined."""
    safe = np.where(b == 0, 1, b)
    whole = np.abs(a.astype(np.int64)) // np.abs(safe.astype(np.int64))
    return np.where((a < 0) != (safe < 0), -whole, whole).astype(a.dtype)


def _floor_divide(a: Array, b: Array) -> Array:
    return np.floor_divide(a, np.where(b == 0, 1, b)).astype(a.dtype)


def _shift(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: function(a, np.clip(b, 0, 8 * a.dtype.itemsize - 1)).astype(a.dtype)


def _unsigned_division(a: Array, b: Array) -> Array:
    return a // np.where(b == 0, 1, b)


BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "addi": lambda a, b: a ^ b if a.dtype == bool else a + b,
    "subi": lambda a, b: a ^ b if a.dtype == bool else a - b,
    "muli": lambda a, b: a & b if a.dtype == bool else a * b,
    "divsi": divide_toward_zero,
    "remsi": lambda a, b: (a - b * divide_toward_zero(a, b)).astype(a.dtype),
    "floordivsi": _floor_divide,
    "ceildivsi": lambda a, b: (-_floor_divide(-a, b)).astype(a.dtype),
    "divui": _as_unsigned(_unsigned_division),
    "remui": _as_unsigned(lambda a, b: a - b * _unsigned_division(a, b)),
    "minsi": np.minimum,
    "maxsi": np.maximum,
    "minui": _as_unsigned(np.minimum),
    "maxui": _as_unsigned(np.maximum),
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "shli": _shift(np.left_shift),
    "shrsi": _shift(np.right_shift),
    "shrui": _shift(_as_unsigned(np.right_shift)),
}

DIVISIONS = ("divsi", "remsi", "floordivsi", "ceildivsi", "divui", "remui")
"""Operations that leave a division by 0 undefined."""

COMPARISONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater, "sge": np.greater_equal,
    "ult": _as_unsigned(np.less), "ule": _as_unsigned(np.less_equal), "ugt": _as_unsigned(np.greater),
    "uge": _as_unsigned(np.greater_equal),
}  # fmt: skip


def cast(name: str, a: Array, kind: np.dtype[Any]) -> Array:
    """Return an integer in another width: sign-extended, zero-extended or truncated."""
    if name == "extui" and a.dtype != bool:
        return _unsigned(a).astype(kind)
    if name == "extsi" and a.dtype == bool:
        return -a.astype(kind)
    if name == "trunci" and kind == np.dtype(bool):
        return (a & 1).astype(bool)
    return a.astype(kind)
