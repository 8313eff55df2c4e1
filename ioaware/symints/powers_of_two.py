"""Recognise how host code rounds block sizes up to powers of two.

It uses bit operations.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import sympy

from ioaware.symints.to_sympy import torch_functions

POWERS: tuple[Any, ...] = (torch_functions.LShift, torch_functions.PowByNatural, sympy.Pow)
"""Functions whose second argument is an exponent."""


class BitLength(sympy.Function):
    """`int.bit_length`."""

    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, *args: Any) -> Any:
        """Return the value for a number, None for anything else (sympy's protocol)."""
        (value,) = args
        return sympy.Integer(int(value).bit_length()) if value.is_Integer else None


class NextPowerOfTwo(sympy.Function):
    """The smallest power of two that is not smaller than a positive integer.

    It is `triton.next_power_of_2`.
    """

    is_integer = True
    is_positive = True

    @classmethod
    def eval(cls, *args: Any) -> Any:
        """Return the value for a number, None for anything else (sympy's protocol)."""
        (value,) = args
        return sympy.Integer(1 << (int(value) - 1).bit_length()) if value.is_Integer else None


def recognise_powers_of_two(expr: Any) -> Any:
    """Rewrite every form of rounding up to a power of two as `NextPowerOfTwo`."""
    rewritten = {node: power for node in sympy.preorder_traversal(expr) if (power := _rounded_up(node)) is not None}
    return expr.xreplace(rewritten) if rewritten else expr


def variable_powers(expr: Any) -> list[Any]:
    """Return the largest subexpressions that are powers of two which symbols decide."""
    if not expr.free_symbols:
        return []
    if _rounded_up(expr) is not None or (isinstance(expr, POWERS) and _args(expr)[1].free_symbols):
        return [expr]
    return list(dict.fromkeys(power for argument in _args(expr) for power in variable_powers(argument)))


def _rounded_up(node: Any) -> Any:
    """Return `NextPowerOfTwo(x)` where the node rounds x up, else None."""
    if isinstance(node, POWERS):  # 1 << (x - 1).bit_length()
        base, exponent = _args(node)
        one = 1 if isinstance(node, torch_functions.LShift) else 2
        return NextPowerOfTwo(_args(exponent)[0] + 1) if base == one and isinstance(exponent, BitLength) else None
    below = _filled(node) if _is_or(node) else None  # all bits below the highest one of x - 1
    power: Any = None if below is None else NextPowerOfTwo(below + 1)
    return None if power is None else power - 1


def _filled(node: Any) -> Any:
    """Return y where the node sets all bits below the highest of y.

    The node is y | y >> 1, then by 2, to 16 or 32.
    """
    shifts: list[int] = []
    while _is_or(node):
        inner, shifted = node.args
        if not isinstance(shifted, torch_functions.FloorDiv) or shifted.args[0] != inner or not shifted.args[1].is_Integer:
            return None
        shifts.append(int(shifted.args[1]).bit_length() - 1)
        if 1 << shifts[-1] != shifted.args[1]:
            return None
        node = inner
    return node if shifts[::-1] in ([1, 2, 4, 8, 16], [1, 2, 4, 8, 16, 32]) else None


def _args(node: Any) -> tuple[Any, ...]:
    return tuple(node.args)


def _is_or(node: Any) -> TypeGuard[Any]:
    return type(node).__name__ == "BitwiseFn_bitwise_or"
