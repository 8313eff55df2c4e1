"""Integer operations of Triton IR on numpy arrays.

They have the width and sign that the IR gives them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

PREDICATES: Mapping[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
}


def bits(element: str) -> int:
    """Return the width of an integer type such as `i32`; an index has 64."""
    found = re.fullmatch(r"i(\d+)", element)
    return int(found[1]) if found else 64


def wrap(values: Array, element: str) -> Array:
    """Return values modulo the width of their type, signed.

    A truth value stays boolean.
    """
    width = bits(element)
    if width == 1:
        return values if values.dtype == bool else (values & 1).astype(bool)
    if width >= 64:
        return values.astype(np.int64, copy=False)
    half = 1 << (width - 1)
    if values.dtype == np.int64 and values.size and -half <= values.min() and values.max() < half:
        return values
    return ((values.astype(np.int64) + half) & ((1 << width) - 1)) - half


def unsigned(values: Array, element: str) -> Array:
    """Return the values as unsigned integers of their type."""
    width = bits(element)
    return values.astype(np.uint64) if width >= 64 else values.astype(np.int64, copy=False) & ((1 << width) - 1)


def _quotient(a: Array, b: Array) -> Array:
    """Divide, rounding towards 0; anything where the divisor is 0."""
    safe = np.where(b == 0, 1, b)
    return np.sign(a) * np.sign(safe) * (np.abs(a) // np.abs(safe))


def _remainder(a: Array, b: Array) -> Array:
    return a - _quotient(a, b) * b


def _floor(a: Array, b: Array) -> Array:
    return a // np.where(b == 0, 1, b)


def _ceiling(a: Array, b: Array) -> Array:
    return -(-a // np.where(b == 0, 1, b))


BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "divsi": _quotient,
    "remsi": _remainder,
    "floordivsi": _floor,
    "ceildivsi": _ceiling,
    "minsi": np.minimum,
    "maxsi": np.maximum,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "shli": np.left_shift,
    "shrsi": np.right_shift,
}
UNSIGNED: Mapping[str, Callable[[Array, Array], Array]] = {
    "divui": _floor,
    "remui": lambda a, b: a % np.where(b == 0, 1, b),
    "ceildivui": _ceiling,
    "minui": np.minimum,
    "maxui": np.maximum,
    "shrui": np.right_shift,
}


DIVISIONS = ("divsi", "remsi", "floordivsi", "ceildivsi", "divui", "remui", "ceildivui")


def binary(name: str, a: Array, b: Array, element: str) -> Array | None:
    """Return the result of `arith.<name>`.

    None for an operation without a rule, or a division by nothing but 0.
    """
    if name in DIVISIONS and not b.any():
        return None
    if name in BINARY:
        if bits(element) == 1 and name in ("addi", "subi", "muli"):
            return (np.logical_and if name == "muli" else np.logical_xor)(a, b)
        return wrap(BINARY[name](a, b), element)
    if name in UNSIGNED:
        return wrap(UNSIGNED[name](unsigned(a, element), unsigned(b, element)), element)
    return None


def compare(predicate: str, a: Array, b: Array, element: str) -> Array:
    """Return the result of `arith.cmpi`."""
    if predicate.startswith("u"):
        return PREDICATES["s" + predicate[1:]](unsigned(a, element), unsigned(b, element))
    return PREDICATES[predicate](a, b)
