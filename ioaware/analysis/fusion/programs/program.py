"""Represent a program for the analysis: reductions in order.

Each is of a map of the inputs and of earlier results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import sympy

_sympy: Any = sympy
NEUTRAL: Mapping[str, Any] = {"sum": _sympy.Integer(0), "max": -_sympy.oo, "min": _sympy.oo}
"""Value of a reduction over no elements."""


def free_symbols(exprs: Iterable[Any]) -> set[Any]:
    """Return every symbol of several expressions."""
    return {symbol for expr in exprs for symbol in expr.free_symbols}


@dataclass(frozen=True, slots=True)
class Parameter:
    """Scalar that maps of the elements use.

    They contain `symbol`, and `value` is an expression of reductions.
    """

    symbol: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Reduction:
    """`symbol` = the sum, max or min (`op`) over the elements of `body`.

    `body` is an expression of inputs and parameters.
    """

    symbol: Any
    op: str
    body: Any

    @property
    def name(self) -> str:
        """Return its name in the program, or a generated one."""
        return self.symbol.name


@dataclass(frozen=True)
class Program:
    """Inputs are sequences of one length.

    Outputs are expressions of the reductions' results.
    """

    name: str
    inputs: tuple[Any, ...]
    parameters: tuple[Parameter, ...]
    reductions: tuple[Reduction, ...]
    outputs: tuple[Any, ...]

    @cached_property
    def reduction_of(self) -> Mapping[Any, Reduction]:
        """Return the reduction of each symbol."""
        return {reduction.symbol: reduction for reduction in self.reductions}

    @cached_property
    def parameter_of(self) -> Mapping[Any, Parameter]:
        """Return the parameter of each symbol."""
        return {parameter.symbol: parameter for parameter in self.parameters}

    def parameters_in(self, body: Any) -> tuple[Parameter, ...]:
        """Return the parameters that a map uses, in the order of the program."""
        return tuple(parameter for parameter in self.parameters if parameter.symbol in body.free_symbols)

    def uses(self, reduction: Reduction) -> frozenset[Any]:
        """Return the symbols of the reductions that its map uses directly."""
        used = free_symbols(parameter.value for parameter in self.parameters_in(reduction.body))
        return frozenset(used & self.reduction_of.keys())

    @cached_property
    def levels(self) -> Mapping[Any, int]:
        """Return the pass that computes each reduction in the program as written.

        It is one more than those of the reductions it uses.
        """
        levels: dict[Any, int] = {}
        for reduction in self.reductions:
            levels[reduction.symbol] = 1 + max((levels[used] for used in self.uses(reduction)), default=0)
        return levels

    @property
    def passes(self) -> int:
        """Return how often the program as written reads the data.

        This is its longest chain of reductions.
        """
        return max(self.levels.values())

    def pruned(self) -> Program:
        """Return the program without unused reductions and parameters.

        No output depends on those reductions, and no map uses those parameters.
        """
        needed = free_symbols(self.outputs)
        for reduction in reversed(self.reductions):
            if reduction.symbol in needed:
                needed |= self.uses(reduction)
        kept = tuple(reduction for reduction in self.reductions if reduction.symbol in needed)
        used = free_symbols(reduction.body for reduction in kept)
        parameters = tuple(parameter for parameter in self.parameters if parameter.symbol in used)
        return replace(self, parameters=parameters, reductions=kept)
