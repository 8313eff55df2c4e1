"""Recognise how host code rounds block sizes up to powers of two.

It uses bit operations.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import sympy

from ioaware.symints.to_sympy import torch_functions


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


def _rounded_up(node: Any) -> Any:
    """Return `NextPowerOfTwo(x)` where the node rounds x up, else None."""
    if isinstance(node, (torch_functions.LShift, torch_functions.PowByNatural, sympy.Pow)):  # 1 << (x - 1).bit_length()
        base, exponent = _args(node)
        one = 1 if isinstance(node, torch_functions.LShift) else 2
        return NextPowerOfTwo(_args(exponent)[0] + 1) if base == one and isinstance(exponent, BitLength) else None
    if isinstance(node, sympy.Add) and any(map(_is_or, node.args)):  # x - 1, all bits below its highest set, and 1
        filled: Any = node - 1
        below = _filled(filled)
        return None if below is None else NextPowerOfTwo(below + 1)
    return None


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
