"""Tell where floats of host code round in another way than exact fractions.

`n / 49 * 49` is 98.99999999999999 at n = 99. sympy also computes sums and products in another order than Python.
"""

from __future__ import annotations

from typing import Any

import sympy
from torch.utils._sympy import functions as _functions

torch_functions: Any = _functions
_sympy: Any = sympy

QUOTIENTS: tuple[Any, ...] = (torch_functions.IntTrueDiv, torch_functions.FloatTrueDiv)
ROUNDED: tuple[Any, ...] = (
    torch_functions.FloorToInt,
    torch_functions.CeilToInt,
    torch_functions.TruncToInt,
    torch_functions.RoundToInt,
)
"""Functions from floats to integers."""
BITS = 24
"""Most bits of a constant with which sizes are still multiplied exactly."""


def is_exact(expr: Any) -> bool:
    """Return whether Python computes the number without rounding, at usual sizes.

    Such are integers, and their sums, products and quotients by powers of two.
    """
    if isinstance(expr, sympy.Float):
        value: Any = _sympy.Rational(expr)
        return int(value.p).bit_length() <= BITS and int(value.q).bit_length() <= BITS
    if isinstance(expr, QUOTIENTS):
        number, divisor = expr.args
        return is_exact(number) and _is_power_of_two(divisor)
    if isinstance(expr, ROUNDED):
        return True
    if isinstance(expr, sympy.Pow):
        return expr.is_integer is True
    if isinstance(expr, torch_functions.FloatPow) or type(expr).__name__.startswith("OpaqueUnaryFn"):
        return False
    return all(map(is_exact, expr.args))


def rounds_once(expr: Any) -> bool:
    """Return whether the float is the exact fraction, rounded once.

    It is on the same side of each integer then, and of each such fraction of usual sizes.
    """
    if isinstance(expr, QUOTIENTS):
        return all(map(is_exact, expr.args))
    if isinstance(expr, sympy.Mul) and sum(not _is_power_of_two(factor) for factor in expr.args) == 1:
        return all(map(rounds_once, expr.args))
    return is_exact(expr)


def computed_as_in_python(expr: Any) -> bool:
    """Return whether the order of operations decides nothing about a float.

    Sums and products with rounded terms, and what is made of them, may be an ulp apart.
    """
    if isinstance(expr, (sympy.Add, sympy.Mul)):
        return rounds_once(expr)
    return all(map(computed_as_in_python, expr.args))


def _is_power_of_two(number: Any) -> bool:
    """Return whether a constant is a power of two, or the negative of one."""
    if not number.is_number:
        return False
    value: Any = _sympy.Rational(number)
    return all(abs(int(part)).bit_count() == 1 for part in (value.p, value.q))
