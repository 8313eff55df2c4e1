"""Find complex zeros of a singular function's argument, and their place.

There a pole or a branch point of the function lies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sympy

from ioaware.analysis.fusion.expressions.algebra import tidy
from ioaware.analysis.fusion.expressions.arithmetic import evaluate
from ioaware.analysis.fusion.expressions.formula_text import formula
from ioaware.analysis.fusion.refutation.samples import NUMBERS

_sympy: Any = sympy
Scope = Mapping[Any, Any]
"""Proven intervals of the parameters and of the coordinates of one element."""


@dataclass(frozen=True, slots=True)
class Zero:
    """A complex zero: its real part, and the imaginary one over pi or 1."""

    real: Any
    turns: Any = 0
    imaginary: Any = 0

    def place(self, scope: Scope) -> Any:
        """Return the proven interval."""
        parts = (self.real, self.turns, self.imaginary)
        real, turns, imaginary = (evaluate(_sympy.sympify(part), scope, NUMBERS) for part in parts)
        is_real = self.turns == 0 and self.imaginary == 0
        return real if is_real else NUMBERS.complex(real, turns * NUMBERS.pi() + imaginary)

    def sentence(self) -> str:
        """Return the place in words."""
        return formula(self.real + _sympy.Symbol("i") * (_sympy.pi * self.turns + self.imaginary))


def zeros(argument: Any, x: Any) -> Iterator[Zero]:
    """Yield zeros of an argument.

    It is affine or quadratic in x, or a + b exp(c x + d), or a sum of two exponentials.
    """
    slope = tidy(_sympy.diff(argument, x))
    if not slope.has(x):
        yield Zero(tidy(-argument.subs(x, 0) / slope))
        return
    curvature = tidy(_sympy.diff(slope, x))
    if not curvature.has(x):
        yield from _zeros_of_quadratic(argument, x, slope.subs(x, 0), curvature)
        return
    exponentials = [node for node in argument.atoms(_sympy.exp) if x in node.free_symbols]
    if len(exponentials) == 2:  # exp(u) is never 0, so both of a exp(u) + b exp(v) and of a + b exp(v - u) have the same zeros
        divided = _sympy.expand(argument * _sympy.exp(-exponentials[0].args[0]))
        argument = _sympy.powsimp(divided, combine="exp")
        exponentials = [node for node in argument.atoms(_sympy.exp) if x in node.free_symbols]
    if len(exponentials) != 1:
        return
    mark = _sympy.Dummy("exponential")
    replaced = argument.xreplace({exponentials[0]: mark})
    exponent = exponentials[0].args[0]
    rate = tidy(_sympy.diff(exponent, x))
    if replaced.has(x) or rate.has(x) or not replaced.is_polynomial(mark) or _sympy.degree(replaced, mark) != 1:
        return
    ratio = tidy(-replaced.subs(mark, 0) / _sympy.diff(replaced, mark))
    if ratio.is_positive or ratio.is_negative:
        real = (_sympy.log(_sympy.Abs(ratio)) - exponent.subs(x, 0)) / rate
        yield Zero(tidy(real), 0 if ratio.is_positive else 1 / rate)


def _zeros_of_quadratic(argument: Any, x: Any, slope: Any, curvature: Any) -> Iterator[Zero]:
    """Yield a zero of c + b x + a x^2, its slope b and its curvature 2 a given."""
    discriminant = tidy(slope**2 - 2 * curvature * argument.subs(x, 0))
    middle, half = tidy(-slope / curvature), _sympy.sqrt(_sympy.Abs(discriminant)) / curvature
    if discriminant.is_positive:
        yield Zero(tidy(middle + half))
    elif discriminant.is_negative:
        yield Zero(middle, imaginary=half)
