"""Evaluate expressions on a kind of number.

The kinds are exact fractions, floats and numpy arrays, and proven intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import reduce
from typing import Any, Protocol

import numpy as np
import sympy

from ioaware.analysis.fusion.expressions.elementwise import Rint

_sympy: Any = sympy
SOFTPLUS = _sympy.log(1 + _sympy.exp(_sympy.Wild("u")))


class Numbers(Protocol):
    """Kind of number: conversion of constants, and the functions without an operator."""

    def constant(self, value: Any) -> Any:
        """Return a sympy rational (or an infinity) as such a number."""
        ...

    def divide(self, left: Any, right: Any) -> Any:
        """Return the quotient."""
        ...

    def power(self, base: Any, exponent: Fraction) -> Any:
        """Return a rational power; integer powers are products."""
        ...

    def function(self, name: str, *values: Any) -> Any:
        """Return exp, log, absolute, rint, maximum, minimum or sign of values."""
        ...


class NotExactError(Exception):
    """A function with an irrational value at a rational number."""


def evaluate(expr: Any, values: Mapping[Any, Any], numbers: Numbers) -> Any:
    """Return the value of an expression, its symbols given.

    Equal parts are evaluated once: derivatives repeat them exponentially often.
    """
    return _evaluate(expr, dict(values), numbers)


def _evaluate(expr: Any, known: dict[Any, Any], numbers: Numbers) -> Any:
    if expr not in known:
        known[expr] = _of_parts(expr, known, numbers)
    return known[expr]


def _of_parts(expr: Any, known: dict[Any, Any], numbers: Numbers) -> Any:
    if expr.is_Rational or expr in (_sympy.oo, -_sympy.oo):
        return numbers.constant(expr)
    if softplus := expr.match(SOFTPLUS) if isinstance(expr, _sympy.log) else None:
        return numbers.function("softplus", _evaluate(next(iter(softplus.values())), known, numbers))
    if expr.is_Mul:
        return _quotient(expr, known, numbers)
    arguments = [_evaluate(argument, known, numbers) for argument in expr.args]
    if expr.is_Add:
        return reduce(lambda a, b: a + b, arguments)
    if isinstance(expr, _sympy.exp):
        return numbers.function("exp", *arguments)
    if expr.is_Pow and expr.exp.is_Rational:
        return numbers.power(arguments[0], Fraction(int(expr.exp.p), int(expr.exp.q)))
    if expr.func in FUNCTIONS:
        return (
            reduce(lambda a, b: numbers.function(FUNCTIONS[expr.func], a, b), arguments)
            if len(arguments) > 1
            else (numbers.function(FUNCTIONS[expr.func], arguments[0]))
        )
    raise NotImplementedError(f"no numeric value of {expr.func}")


FUNCTIONS: Mapping[Any, str] = {
    _sympy.log: "log",
    _sympy.Abs: "absolute",
    Rint: "rint",
    _sympy.Max: "maximum",
    _sympy.Min: "minimum",
    _sympy.sign: "sign",
}


def _quotient(expr: Any, known: dict[Any, Any], numbers: Numbers) -> Any:
    """Return a product with its reciprocals as one division."""
    above = [part for part in expr.args if not (part.is_Pow and part.exp.is_Rational and part.exp < 0)]
    below = [1 / part for part in expr.args if part.is_Pow and part.exp.is_Rational and part.exp < 0]
    top = reduce(lambda a, b: a * b, (_evaluate(part, known, numbers) for part in above), numbers.constant(_sympy.Integer(1)))
    if not below:
        return top
    return numbers.divide(top, reduce(lambda a, b: a * b, (_evaluate(part, known, numbers) for part in below)))


class ExactNumbers:
    """Fractions, with float infinities for the extremes of nothing and NaN for 0 / 0."""

    def constant(self, value: Any) -> Any:
        """Return the fraction."""
        return Fraction(int(value.p), int(value.q)) if value.is_Rational else float(value)

    def divide(self, left: Any, right: Any) -> Any:
        """Return the quotient, NaN over 0."""
        return math.nan if right == 0 else left / right

    def power(self, base: Any, exponent: Fraction) -> Any:
        """Return an integer power; raises `NotExactError` for a root."""
        if exponent.denominator != 1:
            raise NotExactError
        return math.nan if base == 0 and exponent < 0 else base ** int(exponent)

    def function(self, name: str, *values: Any) -> Any:
        """Return what is rational; raises `NotExactError` for exp and log."""
        if name == "absolute":
            return abs(values[0])
        if name == "rint":
            return Fraction(round(values[0]))
        if name in ("maximum", "minimum"):
            return max(values) if name == "maximum" else min(values)
        raise NotExactError


class FloatNumbers:
    """float64 numbers and numpy arrays.

    Undefined values are inf or NaN, without a warning.
    """

    def constant(self, value: Any) -> Any:
        """Return the nearest float."""
        return np.float64(value)

    def divide(self, left: Any, right: Any) -> Any:
        """Return the quotient by IEEE 754."""
        with np.errstate(all="ignore"):
            return np.float64(left) / right if np.ndim(left) == 0 else left / right

    def power(self, base: Any, exponent: Fraction) -> Any:
        """Return a power; square roots by `sqrt`."""
        with np.errstate(all="ignore"):
            if exponent.denominator == 2:
                return np.sqrt(base) ** exponent.numerator
            return np.asarray(base, dtype=np.float64)[()] ** (
                int(exponent) if exponent.denominator == 1 and exponent > 0 else float(exponent)
            )

    def function(self, name: str, *values: Any) -> Any:
        """Return numpy's function of this name."""
        with np.errstate(all="ignore"):
            return np.logaddexp(values[0], 0.0) if name == "softplus" else getattr(np, name)(*values)
