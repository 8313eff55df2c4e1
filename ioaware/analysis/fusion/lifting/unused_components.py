"""Drop components that no output needs.

A result may cancel: the sum of p / l is 1 where l is the sum of p, whatever both are. A program without any data left has a
sum of 0 as its state.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import sympy

from ioaware.analysis.fusion.lifting.lifted_reductions import ONE, Component, Lifted, old_symbol
from ioaware.analysis.fusion.lifting.pass_plan import FusedPass, Plan
from ioaware.analysis.fusion.programs.program import Reduction, free_symbols

_sympy: Any = sympy


def without_unused(plan: Plan) -> Plan:
    """Return the plan with only the components that its outputs depend on."""
    uses = _uses(plan)
    needed: set[Any] = set()
    new = free_symbols(plan.program.outputs)
    while new:
        needed |= new
        new = {used for symbol in new for used in uses.get(symbol, ())} - needed
    return replace(plan, passes=tuple(_reduced(part, needed) for part in plan.passes))


def _uses(plan: Plan) -> dict[Any, set[Any]]:
    """Return the symbols from which each symbol of the plan is computed."""
    uses = {parameter.symbol: set(parameter.value.free_symbols) for parameter in plan.program.parameters}
    for part in plan.passes:
        now = {old_symbol(parameter.symbol): parameter.symbol for parameter in part.varying}
        for lifted in part.lifted:
            uses.setdefault(lifted.reduction.symbol, set()).update(part.value_of(lifted).free_symbols)
        for component in part.components:
            repair = part.repair_of(component)
            used = free_symbols((component.body, *repair, *repair.values()))
            uses.setdefault(component.symbol, set()).update(now.get(symbol, symbol) for symbol in used)
    return uses


def _reduced(part: FusedPass, needed: set[Any]) -> FusedPass:
    if part.components and all(component.symbol in needed for component in part.components):
        return part
    lifted = tuple(one for one in part.lifted if {one.reduction.symbol, *(c.symbol for c in one.components)} & needed)
    components = tuple(component for component in part.components if component.symbol in needed)
    if not components:
        zero = _zero(
            {symbol.name for one in part.lifted for symbol in (one.reduction.symbol, *free_symbols([one.reduction.body]))}
        )
        lifted, components = (zero, *lifted), zero.components
    used = needed | free_symbols(component.body for component in components)
    varying = tuple(parameter for parameter in part.varying if parameter.symbol in used)
    fixed = tuple(parameter for parameter in part.fixed if parameter.symbol in used)
    return FusedPass(lifted, components, part.known, varying, fixed)


def _zero(taken: set[str]) -> Lifted:
    """Return a sum of 0 of no data."""
    name = next(name for n in count() if (name := f"zero{n or ''}") not in taken)
    symbol = _sympy.Symbol(name, real=True)
    component = Component(symbol, "sum", _sympy.Integer(0))
    return Lifted(Reduction(symbol, "sum", component.body), (), (component,), ({symbol: ONE},), symbol, 0, {})
