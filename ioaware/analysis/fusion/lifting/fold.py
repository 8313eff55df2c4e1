"""Run a program on data, pass by pass as written or as states of blocks.

The combiner merges the states in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from ioaware.analysis.fusion.expressions.arithmetic import Numbers, evaluate
from ioaware.analysis.fusion.lifting.lifted_reductions import ONE, Linear, old_symbol
from ioaware.analysis.fusion.lifting.pass_plan import FusedPass, Plan
from ioaware.analysis.fusion.lifting.reference_guards import guard_of
from ioaware.analysis.fusion.programs.program import NEUTRAL, Parameter

Element = Mapping[Any, Any]
"""The value of each input at one position."""
State = dict[Any, Any]
"""The value of each component."""


class Fold:
    """States of one pass, in one kind of number.

    `fixed` are the parameters that earlier passes gave.
    """

    def __init__(self, plan: Plan, part: FusedPass, numbers: Numbers, fixed: Mapping[Any, Any] | None = None) -> None:
        self.part = part
        self.numbers = numbers
        self.fixed = dict(fixed or {})
        self.guards = {parameter.symbol: guard_of(plan.program, parameter) for parameter in (*part.varying, *part.fixed)}
        self.repairs = {component.symbol: part.repair_of(component) for component in part.components}
        self.varies = {symbol for symbol, repair in self.repairs.items() if repair != {symbol: ONE}}

    def empty(self) -> State:
        """Return the state of no elements."""
        return {component.symbol: self.numbers.constant(NEUTRAL[component.op]) for component in self.part.components}

    @np.errstate(all="ignore")
    def of(self, elements: Sequence[Element]) -> State:
        """Return the state of a block by itself.

        Each map is taken at the block's own results.
        """
        state: State = self.empty()
        for component in self.part.components:
            used = component.body.free_symbols & self.guards.keys()
            scope = {**self.fixed, **(self.references(state) if used else {})}
            for element in elements:
                value = evaluate(component.body, {**scope, **element}, self.numbers)
                state[component.symbol] = self._merge_values(component.op, state[component.symbol], value)
        return state

    @np.errstate(all="ignore")
    def merge(self, left: State, right: State) -> State:
        """Return the state of both blocks together: the combiner C."""
        merged: State = self.empty()
        old = [
            {old_symbol(name): value for name, value in self.references(side).items()} if self.varies else {}
            for side in (left, right)
        ]
        for component in self.part.components:
            new = self.references(merged) if component.symbol in self.varies else {}
            sides = [
                self._repaired(component.symbol, component.op, side, {**self.fixed, **new, **was})
                for side, was in zip((left, right), old, strict=True)
            ]
            merged[component.symbol] = self._merge_values(component.op, *sides)
        return merged

    @np.errstate(all="ignore")
    def results(self, state: State) -> dict[Any, Any]:
        """Return the value of each reduction of the pass."""
        values: dict[Any, Any] = {}
        scope = {**self.fixed, **self.references(state), **state}
        for lifted in self.part.lifted:
            values[lifted.reduction.symbol] = evaluate(self.part.value_of(lifted), scope, self.numbers)
        return values

    def references(self, state: State) -> dict[Any, Any]:
        """Return the guarded parameters of a state."""
        values: dict[Any, Any] = {}
        found: dict[Any, Any] = {}
        for lifted in self.part.lifted:
            scope = {**self.fixed, **found, **state}
            values[lifted.reduction.symbol] = evaluate(self.part.value_of(lifted), scope, self.numbers)
            for parameter in self.part.varying:
                if parameter.symbol not in found and parameter.value.free_symbols <= values.keys() | self.fixed.keys():
                    found[parameter.symbol] = self.guarded(parameter, {**self.fixed, **values})
        return found

    def guarded(self, parameter: Parameter, values: Mapping[Any, Any]) -> Any:
        """Return a parameter, or its substitute where it is undefined."""
        guard, value = self.guards[parameter.symbol], evaluate(parameter.value, values, self.numbers)
        undefined = value != value or value in (float("inf"), float("-inf"))
        if undefined and guard.if_undefined is not None:
            return self.numbers.constant(ONE * guard.if_undefined)
        return self.numbers.constant(ONE) if guard.not_zero and value == 0 else value

    def _repaired(self, symbol: Any, op: str, side: State, scope: Mapping[Any, Any]) -> Any:
        """Return a component of one side at the reference of both."""
        if symbol not in self.varies or (op != "sum" and side[symbol] == self.numbers.constant(NEUTRAL[op])):
            return side[symbol]
        return _linear_value(self.repairs[symbol], scope, side, self.numbers)

    def _merge_values(self, op: str, left: Any, right: Any) -> Any:
        if op == "sum":
            return left + right
        return self.numbers.function("maximum" if op == "max" else "minimum", left, right)


def _linear_value(form: Linear, scope: Mapping[Any, Any], state: State, numbers: Numbers) -> Any:
    """Return a linear form.

    A component that is 0 adds nothing, whatever its coefficient.
    """
    parts = [
        evaluate(factor, scope, numbers) * (1 if symbol == ONE else state[symbol])
        for symbol, factor in form.items()
        if symbol == ONE or state[symbol] != 0
    ]
    return reduce(lambda a, b: a + b, parts, numbers.constant(0 * ONE))


@np.errstate(all="ignore")
def run_plan(plan: Plan, elements: Sequence[Element], numbers: Numbers) -> tuple[Any, ...]:
    """Return the program's outputs, each pass over all elements at once."""
    values: dict[Any, Any] = {}
    fixed: dict[Any, Any] = {}
    for part in plan.passes:
        known = Fold(plan, part, numbers, fixed)
        fixed.update({parameter.symbol: known.guarded(parameter, values) for parameter in part.fixed})
        fold = Fold(plan, part, numbers, fixed)
        values.update(fold.results(fold.of(elements)))
    return finish(plan, values, numbers)


@np.errstate(all="ignore")
def finish(plan: Plan, values: Mapping[Any, Any], numbers: Numbers) -> tuple[Any, ...]:
    """Return the outputs from the reductions' values; 0 / 0 is 0."""
    outputs: list[Any] = []
    for output in plan.program.outputs:
        value = evaluate(output, values, numbers)
        top, bottom = (evaluate(part, values, numbers) for part in output.as_numer_denom())
        outputs.append(numbers.constant(0 * ONE) if value != value and bool(top == 0) and bool(bottom == 0) else value)
    return tuple(outputs)
