"""Order the steps of a pass: components, and parameters between them.

Components are those of the state, and the parameters become known between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sympy

from ioaware.analysis.fusion.expressions.formula_text import formula
from ioaware.analysis.fusion.lifting.lifted_reductions import ONE, Component, old_symbol
from ioaware.analysis.fusion.lifting.pass_plan import FusedPass
from ioaware.analysis.fusion.programs.program import Parameter

_sympy: Any = sympy
EXTREME = {"max": _sympy.Max, "min": _sympy.Min}


@dataclass(frozen=True, slots=True)
class Step:
    """Component to be computed, or parameter with its `value`.

    The value is from components and earlier parameters.
    """

    component: Component | None = None
    parameter: Parameter | None = None
    value: Any = None


def steps(part: FusedPass) -> Iterator[Step]:
    """Yield the components of a pass, and each parameter as soon as possible.

    A parameter comes as soon as the components it needs are known.
    """
    values = {lifted.reduction.symbol: part.value_of(lifted) for lifted in part.lifted}
    definitions = {parameter.symbol: parameter.value.xreplace(values) for parameter in part.varying}
    ready: set[Any] = {parameter.symbol for parameter in part.fixed}
    state = {component.symbol for component in part.components}
    waiting = list(part.varying)
    changing = state | {parameter.symbol for parameter in part.varying}
    for component in part.components:
        yield Step(component=component)
        ready.add(component.symbol)
        for parameter in list(waiting):
            needed = definitions[parameter.symbol].free_symbols & changing
            if needed <= ready and definitions[parameter.symbol].free_symbols & state <= ready:
                yield Step(parameter=parameter, value=definitions[parameter.symbol])
                ready.add(parameter.symbol)
                waiting.remove(parameter)


@dataclass(frozen=True)
class Combiner:
    """C of one pass as formulas.

    `left` and `right` name the two states' numbers, and plain names are the merged ones.
    """

    part: FusedPass

    def left(self, symbol: Any) -> Any:
        """Return the symbol of a number of the first state."""
        return self._of_side(symbol, "1")

    def right(self, symbol: Any) -> Any:
        """Return the symbol of a number of the second state."""
        return self._of_side(symbol, "2")

    def _of_side(self, symbol: Any, side: str) -> Any:
        names = {component.symbol.name for component in self.part.components}
        names |= {parameter.symbol.name for parameter in self.part.varying}
        clear = not any(name[-1].isdigit() for name in names)
        marks = (*([""] if clear else []), "_", "__", "_side_")
        mark = next(mark for mark in marks if not any(f"{name}{mark}{end}" in names for name in names for end in "12"))
        assumptions = {"positive": True} if symbol.is_positive else {"real": True}
        return _sympy.Symbol(f"{symbol.name}{mark}{side}", **assumptions)

    def merged(self, component: Component) -> Any:
        """Return a component of the merged state as an expression.

        It is one of both states and the merged parameters.
        """
        repair = self.part.repair_of(component)
        sides: list[Any] = []
        for side in (self.left, self.right):
            names = {old_symbol(parameter.symbol): side(parameter.symbol) for parameter in self.part.varying}
            terms = [factor.xreplace(names) * (ONE if name == ONE else side(name)) for name, factor in repair.items()]
            sides.append(_sympy.Add(*terms))
        return _sympy.Add(*sides) if component.op == "sum" else EXTREME[component.op](*sides)

    def lines(self) -> Iterator[str]:
        """Yield the combiner as formulas, one per line."""
        for step in steps(self.part):
            if step.component:
                yield f"{step.component.symbol.name} = {formula(self.merged(step.component))}"
            elif step.parameter and step.value != step.parameter.symbol and self._is_used(step.parameter):
                names = [side(step.parameter.symbol).name for side in (self.left, self.right)]
                yield f"{step.parameter.symbol.name} = {formula(step.value)}, and {' and '.join(names)} alike"
        for lifted in self.part.lifted:
            value = self.part.value_of(lifted)
            if value != lifted.reduction.symbol and any(c.symbol in value.free_symbols for c in lifted.components):
                yield f"{lifted.reduction.name} = {formula(value)}"

    def _is_used(self, parameter: Parameter) -> bool:
        """Return whether a repair or a reduction's value uses the parameter."""
        uses = {parameter.symbol, old_symbol(parameter.symbol)}
        repairs = (factor for component in self.part.components for factor in self.part.repair_of(component).values())
        values = (self.part.value_of(lifted) for lifted in self.part.lifted)
        definitions = (step.value for step in steps(self.part) if step.parameter and step.parameter != parameter)
        return any(uses & expr.free_symbols for expr in (*repairs, *values, *definitions))
