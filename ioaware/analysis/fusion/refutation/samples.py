"""Represent concrete data for proofs.

It has elements X, a continuation Y with values that may move, and the results over both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import sympy

from ioaware.analysis.fusion.expressions.arithmetic import evaluate
from ioaware.analysis.fusion.expressions.elementwise import with_absolute_values
from ioaware.analysis.fusion.expressions.interval_arithmetic import (
    IntervalNumbers,
    UndecidedError,
    interval,
    is_above,
    proven_rank,
)
from ioaware.analysis.fusion.programs.program import Parameter, Program, Reduction

_sympy: Any = sympy
NUMBERS = IntervalNumbers()

Element = Mapping[Any, Fraction]
Span = tuple[Fraction, Fraction]
"""Value of the continuation: any number from the first to the second."""


@dataclass(frozen=True)
class Sample:
    """`seen` elements, then a `continuation` of numbers or spans of numbers."""

    program: Program
    seen: tuple[Element, ...]
    continuation: tuple[Mapping[Any, Span], ...]

    def sentence(self) -> str:
        """Return the data in words; a span by its middle."""
        seen = "; ".join(", ".join(f"{name} = {value}" for name, value in element.items()) for element in self.seen)
        later = "; ".join(
            ", ".join(f"{name} = {float((low + high) / 2):.6g}" for name, (low, high) in element.items())
            for element in self.continuation
        )
        return f"elements ({seen}) continued by ({later})"

    @cached_property
    def moving(self) -> Mapping[Any, Any]:
        """Return the interval of each value of the continuation, by a symbol for it."""
        return {
            self._symbol(number, name): interval(*span)
            for number, element in enumerate(self.continuation)
            for name, span in element.items()
        }

    def _symbol(self, number: int, name: Any) -> Any:
        return _sympy.Symbol(f"{name.name}'{number}", real=True)

    @cached_property
    def elements(self) -> Sequence[Mapping[Any, Any]]:
        """Return every element: rational numbers first, then symbols."""
        seen = [{name: _sympy.Rational(v.numerator, v.denominator) for name, v in element.items()} for element in self.seen]
        return [*seen, *({name: self._symbol(i, name) for name in element} for i, element in enumerate(self.continuation))]

    @cached_property
    def _results(self) -> dict[Any, Any]:
        return {}

    def result(self, reduction: Reduction) -> Any:
        """Return a reduction over all elements as an expression of the continuation.

        Raises `UndecidedError` where it is not proven which element is the largest.
        """
        if reduction.symbol not in self._results:
            known = {p.symbol: self.parameter(p) for p in self.program.parameters_in(reduction.body)}
            values = [reduction.body.xreplace({**known, **element}) for element in self.elements]
            if any(value.has(_sympy.nan, _sympy.zoo, _sympy.I) for value in values):
                raise UndecidedError("a map is undefined at an element")
            self._results[reduction.symbol] = (
                _sympy.Add(*values) if reduction.op == "sum" else self._extreme(reduction.op, values)
            )
        return self._results[reduction.symbol]

    def _extreme(self, op: str, values: Sequence[Any]) -> Any:
        sizes = [(self.value(value), value) for value in dict.fromkeys(values)]
        for size, value in sizes:
            others = [other for other, expr in sizes if expr != value]
            if all(is_above(size, other) if op == "max" else is_above(other, size) for other in others):
                return value
        raise UndecidedError("which element is the largest is not proven")

    def parameter(self, parameter: Parameter) -> Any:
        """Return a parameter as an expression of the continuation."""
        used = parameter.value.free_symbols
        results = {symbol: self.result(one) for symbol, one in self.program.reduction_of.items() if symbol in used}
        return parameter.value.xreplace(results)

    def value(self, expr: Any) -> Any:
        """Return the interval of an expression of the continuation."""
        return evaluate(expr, self.moving, NUMBERS)

    def steers(self, parameters: Sequence[Parameter]) -> bool:
        """Return whether moving the continuation moves the parameters independently.

        It must be proven that they move independently of each other.
        """
        rows: list[list[Any]] = []
        for parameter in parameters:
            expr = with_absolute_values(self.parameter(parameter))
            rows.append([self.value(_sympy.diff(expr, symbol)) for symbol in self.moving])
        return proven_rank(rows) == len(rows)
