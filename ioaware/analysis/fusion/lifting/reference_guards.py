"""Guard the references of states with undefined parameters.

Such states are of no elements, or of elements that are all -inf.

Repair is an identity for arbitrary references. So any number may replace an undefined one, as long as the same rule gives it
everywhere. A sum that is 0 stays 0 whatever its factor: with an undefined reference there is nothing to repair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sympy

from ioaware.analysis.fusion.expressions.formula_text import formula
from ioaware.analysis.fusion.programs.program import Parameter, Program

_sympy: Any = sympy
UNDEFINED = (_sympy.zoo, _sympy.nan, _sympy.oo, -_sympy.oo)


@dataclass(frozen=True, slots=True)
class Guard:
    """Substitute for a parameter that is undefined or, with `not_zero`, 0.

    `if_undefined` replaces infinities and NaN (None: never so), and 1 replaces 0 with `not_zero`.
    """

    parameter: Parameter
    if_undefined: int | None
    not_zero: bool

    @property
    def needed(self) -> bool:
        """Return whether there is anything to guard against."""
        return self.not_zero or self.if_undefined is not None

    def sentence(self) -> str:
        """Return the guard in words."""
        name, value = self.parameter.symbol.name, self.parameter.value
        shown = name if value == self.parameter.symbol else f"{name} = {formula(value)}"
        cases: list[str] = []
        if self.if_undefined is not None:
            cases.append(f"{self.if_undefined} stands in where it is infinite or undefined (no elements, or all of them -inf)")
        if self.not_zero:
            cases.append("1 stands in where it is 0")
        return f"{shown}: {'; '.join(cases)}"


def guard_of(program: Program, parameter: Parameter) -> Guard:
    """Return how a parameter is guarded in every map that uses it."""
    bodies = [reduction.body for reduction in program.reductions if parameter.symbol in reduction.body.free_symbols]
    not_zero = any(is_singular_at_zero(body, parameter.symbol) for body in bodies)
    return Guard(parameter, (1 if not_zero else 0) if _can_be_undefined(program, parameter.value) else None, not_zero)


def is_singular_at_zero(body: Any, symbol: Any) -> bool:
    """Return whether a map is undefined where a parameter is 0."""
    return bool(body.subs(symbol, 0).has(*UNDEFINED))


def with_divisors_apart(program: Program) -> Program:
    """Return the program with two symbols for a parameter that divides some maps.

    Only some maps divide by that parameter.

    Why: their guards differ.
    """
    parameters, reductions = list(program.parameters), list(program.reductions)
    taken = {symbol.name for symbol in (*program.inputs, *program.reduction_of, *program.parameter_of)}
    for parameter in program.parameters:
        symbol = parameter.symbol
        singular = [
            symbol in reduction.body.free_symbols and is_singular_at_zero(reduction.body, symbol) for reduction in reductions
        ]
        if any(singular) and any(symbol in r.body.free_symbols and not s for r, s in zip(reductions, singular, strict=True)):
            name = next(name for name in (f"{symbol.name}_{end}" for end in ("divisor", *range(2, 99))) if name not in taken)
            divisor = _sympy.Symbol(name, positive=True) if symbol.is_positive else _sympy.Symbol(name, real=True)
            parameters.append(Parameter(divisor, parameter.value))
            reductions = [
                replace(reduction, body=reduction.body.xreplace({symbol: divisor})) if divides else reduction
                for reduction, divides in zip(reductions, singular, strict=True)
            ]
    return replace(program, parameters=tuple(parameters), reductions=tuple(reductions))


def _can_be_undefined(program: Program, value: Any) -> bool:
    """Return whether a parameter is undefined for some data.

    It may be an extreme of nothing, a quotient, a root or a logarithm.
    """
    extremes = {reduction.symbol for reduction in program.reductions if reduction.op != "sum"}
    powers = [node for node in value.atoms(_sympy.Pow) if not (node.exp.is_Integer and node.exp > 0)]
    return bool(powers or value.has(_sympy.log) or value.free_symbols & extremes)
