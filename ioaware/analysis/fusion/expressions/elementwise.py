"""Represent a program's elementwise functions as sympy expressions.

Those that sympy lacks are among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import isfinite
from typing import Any

import sympy

from ioaware.errors import UsageError

_sympy: Any = sympy
LARGEST_DENOMINATOR = 10**12
_Function: Any = _sympy.Function


class Rint(_Function):
    """The nearest integer, ties to even: constant but for its jumps at half integers."""

    is_real = True
    nargs = 1

    @classmethod
    def eval(cls, argument: Any) -> Any:
        """Return the integer of a number, `None` for anything else: it stays as it is."""
        return _sympy.Integer(round(Fraction(int(argument.p), int(argument.q)))) if argument.is_Rational else None

    def fdiff(self, argindex: int = 1) -> Any:  # noqa: ARG002
        """Return the derivative, 0 wherever there is one."""
        return _sympy.Integer(0)


ELEMENTWISE: Mapping[str, Callable[..., Any]] = {
    "exp": _sympy.exp,
    "log": _sympy.log,
    "sqrt": _sympy.sqrt,
    "absolute": _sympy.Abs,
    "rint": Rint,
    "maximum": _sympy.Max,
    "minimum": _sympy.Min,
}


def as_number(value: Any) -> Any:
    """Return a Python number as an exact rational.

    It is the shortest fraction that is this float.

    Raises `UsageError` for infinities and NaN.
    """
    if isinstance(value, float):
        if not isfinite(value):
            raise UsageError(f"the constant {value} is not a finite number", "Write the program with finite constants.")
        short = Fraction(value).limit_denominator(LARGEST_DENOMINATOR)
        exact = short if float(short) == value else Fraction(value)
        return _sympy.Rational(exact.numerator, exact.denominator)
    fraction = Fraction(value)
    return _sympy.Rational(fraction.numerator, fraction.denominator)


def with_absolute_values(expr: Any) -> Any:
    """Return the expression with maxima and minima written by absolute values.

    Every one is rewritten, and |.| is then its only kink.
    """

    def is_extreme(node: Any) -> bool:
        return node.func in (_sympy.Max, _sympy.Min)

    def rewrite(node: Any) -> Any:
        sign = 1 if node.func is _sympy.Max else -1
        whole = node.args[0]
        for part in node.args[1:]:
            whole = (whole + part + sign * _sympy.Abs(whole - part)) / 2
        return whole

    return expr.replace(is_extreme, _clip).replace(is_extreme, rewrite)


def _clip(node: Any) -> Any:
    """Return a value held between two numbers without an extreme of an extreme."""
    outer, held = sorted(node.args[:2], key=lambda part: not part.is_Number)
    inner = _sympy.Min if node.func is _sympy.Max else _sympy.Max
    if len(node.args) != 2 or held.func is not inner or len(held.args) != 2 or not outer.is_Number:
        return node
    numbers, others = [part for part in held.args if part.is_Number], [part for part in held.args if not part.is_Number]
    if len(numbers) != 1 or bool(numbers[0] < outer) is (inner is _sympy.Min):
        return node
    least, most = sorted((outer, numbers[0]))
    return (least + most + _sympy.Abs(others[0] - least) - _sympy.Abs(others[0] - most)) / 2
