"""References for states whose parameters are undefined: of no elements, or of elements that are all -inf.

Repair is an identity for arbitrary references, so any number may stand in for an undefined one, as long as the same rule
gives it everywhere. A sum that is 0 stays 0 whatever its factor: with an undefined reference there is nothing to repair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy

from ioaware.analysis.fusion.display import formula
from ioaware.analysis.fusion.program import NEUTRAL, Parameter, Program

_sympy: Any = sympy
UNDEFINED = (_sympy.zoo, _sympy.nan, _sympy.oo, -_sympy.oo)


@dataclass(frozen=True, slots=True)
class Guard:
    """What stands in for a parameter: `if_undefined` for infinities and NaN (None: never so), 1 for 0 with `not_zero`."""

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
        cases = [f"infinite or undefined: maps and repairs use {self.if_undefined}"] if self.if_undefined is not None else []
        cases += ["0: maps and repairs use 1"] if self.not_zero else []
        return f"{shown} is " + "; is ".join(cases)


def guard_of(program: Program, parameter: Parameter) -> Guard:
    """Return how a parameter is guarded in every map that uses it."""
    bodies = [reduction.body for reduction in program.reductions if parameter.symbol in reduction.body.free_symbols]
    not_zero = any(body.subs(parameter.symbol, 0).has(*UNDEFINED) for body in bodies)
    return Guard(parameter, (1 if not_zero else 0) if _can_be_undefined(program, parameter) else None, not_zero)


def _can_be_undefined(program: Program, parameter: Parameter) -> bool:
    """Return whether the parameter of no elements is infinite or undefined."""
    neutral = {reduction.symbol: NEUTRAL[reduction.op] for reduction in program.reductions}
    return bool(parameter.value.subs(neutral, simultaneous=True).has(*UNDEFINED))
