"""Put the reductions of a program into as few passes as lifting allows.

What a pass need not carry is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from ioaware.analysis.fusion.expressions.algebra import is_nonzero, is_zero, tidy
from ioaware.analysis.fusion.lifting.lifted_reductions import ONE, Component, Lifted, Linear, lift, old_symbol
from ioaware.analysis.fusion.lifting.reference_guards import is_singular_at_zero
from ioaware.analysis.fusion.lifting.separation import separate
from ioaware.analysis.fusion.programs.program import Parameter, Program, Reduction, free_symbols

_sympy: Any = sympy


@dataclass(frozen=True)
class FusedPass:
    """Reductions that one pass computes.

    `components` is the state, in order; `known` gives the omitted ones from the others.

    `varying` parameters change while the pass runs; those of `fixed` come from earlier passes.
    """

    lifted: tuple[Lifted, ...]
    components: tuple[Component, ...]
    known: Mapping[Any, Linear]
    varying: tuple[Parameter, ...]
    fixed: tuple[Parameter, ...]

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """Return the reductions of the program that this pass computes."""
        return tuple(lifted.reduction for lifted in self.lifted)

    def inputs(self, program: Program) -> tuple[Any, ...]:
        """Return the inputs that the pass reads."""
        used = free_symbols(component.body for component in self.components)
        return tuple(symbol for symbol in program.inputs if symbol in used)

    def repair_of(self, component: Component) -> Linear:
        """Return the component at a new reference from the state at an old one.

        What is known is left out.
        """
        for lifted in self.lifted:
            for own, repair in zip(lifted.components, lifted.repair, strict=True):
                if own.symbol == component.symbol:
                    return _without_known(repair, self.known)
        raise KeyError(component)

    def value_of(self, lifted: Lifted) -> Any:
        """Return the reduction's value from the state and the parameters it belongs to."""
        known = {symbol: as_expression(linear) for symbol, linear in self.known.items()}
        return lifted.value.xreplace(known)


@dataclass(frozen=True)
class Plan:
    """Passes over the data, in order, that compute `program`."""

    program: Program
    passes: tuple[FusedPass, ...]

    @property
    def is_one_pass(self) -> bool:
        """Return whether one pass computes everything."""
        return len(self.passes) == 1


def make_plan(program: Program) -> Plan:
    """Return the program in as few passes as lifting finds.

    Each reduction goes into the first pass it can be lifted in.
    """
    inputs = frozenset(program.inputs)
    found: dict[Any, tuple[int, Lifted]] = {}
    taken = {symbol.name for symbol in (*inputs, *program.reduction_of, *program.parameter_of)}
    for reduction in program.reductions:
        earliest = max((found[used][0] for used in program.uses(reduction)), default=0)
        lifted = lift(reduction, inputs, _varying(program, reduction, found, earliest))
        if lifted is None:
            earliest, lifted = earliest + 1, lift(reduction, inputs, ())
        assert lifted is not None  # noqa: S101 (nothing varies, so nothing needs repair)
        lifted = lifted.with_names_apart(taken)
        taken |= {component.symbol.name for component in lifted.components}
        found[reduction.symbol] = (earliest, lifted)
    last = max((number for number, _ in found.values()), default=0)
    groups = [[lifted for number, lifted in found.values() if number == wanted] for wanted in range(last + 1)]
    return Plan(program, tuple(_fused_pass(program, group) for group in groups))


def plan_as_written(program: Program) -> Plan:
    """Return the program in the passes it is written in.

    Each pass reads final results only.
    """
    inputs = frozenset(program.inputs)
    groups = [
        [lift(reduction, inputs, ()) for reduction in program.reductions if program.levels[reduction.symbol] == level]
        for level in range(1, program.passes + 1)
    ]
    return Plan(program, tuple(_fused_pass(program, [one for one in group if one is not None]) for group in groups))


def as_expression(linear: Linear) -> Any:
    """Return a linear form as a sum."""
    return _sympy.Add(*(coefficient * symbol for symbol, coefficient in linear.items()))


def _varying(
    program: Program, reduction: Reduction, found: Mapping[Any, tuple[int, Lifted]], number: int
) -> tuple[Parameter, ...]:
    """Return the parameters of a reduction's map that change during a pass."""
    now = {symbol for symbol, (chosen, _) in found.items() if chosen == number}
    return tuple(parameter for parameter in program.parameters_in(reduction.body) if parameter.value.free_symbols & now)


def _fused_pass(program: Program, lifted: Sequence[Lifted]) -> FusedPass:
    used = [parameter for one in lifted for parameter in program.parameters_in(one.reduction.body)]
    varying = {parameter.symbol: parameter for one in lifted for parameter in one.parameters}
    fixed = {parameter.symbol: parameter for parameter in used if parameter.symbol not in varying}
    kept: list[Component] = []
    known: dict[Any, Linear] = {}
    inputs = frozenset(program.inputs) | fixed.keys()
    values: dict[Any, Any] = {}
    for one in lifted:
        for component in one.components:
            form = _known_form(component, kept, inputs, varying, values)
            if form is None:
                kept.append(component)
            else:
                known[component.symbol] = form
        values[one.reduction.symbol] = one.value.xreplace({symbol: as_expression(form) for symbol, form in known.items()})
    return FusedPass(tuple(lifted), tuple(kept), known, tuple(varying.values()), tuple(fixed.values()))


def _known_form(
    component: Component,
    kept: Sequence[Component],
    inputs: frozenset[Any],
    varying: Mapping[Any, Parameter],
    values: Mapping[Any, Any],
) -> Linear | None:
    """Return the component as a combination of kept ones at any reference.

    None where there is none.

    An extreme is known only if it is kept already. With the definitions of the parameters it may be 0, as the sum of x - mean
    is. That holds at the reference of the state itself. It is used where the parameters are quotients that only a state of no
    elements leaves undefined.
    """
    same = [other.symbol for other in kept if (other.op, other.body) == (component.op, component.body)]
    if same or component.op != "sum":
        return {same[0]: ONE} if same else None
    sums = [other for other in kept if other.op == "sum"]
    target, columns = separate(component.body, inputs), [separate(other.body, inputs) for other in sums]
    if target is None or any(column is None for column in columns):
        return None
    solution = _combination([column or {} for column in columns], target)
    if solution is None:
        return None
    form = {other.symbol: c for other, c in zip(sums, solution, strict=True) if c != 0}
    if not all(_is_defined(c, component.body) for c in form.values()):
        return None
    if not _undefined_without_elements_only(form, varying, kept):
        return form
    definitions = {symbol: parameter.value.xreplace(dict(values)) for symbol, parameter in varying.items()}
    return {} if is_zero(as_expression(form).xreplace(definitions)) else form


def _is_defined(coefficient: Any, body: Any) -> bool:
    """Return whether a coefficient divides only by allowed parameters or values.

    Allowed are parameters that the body divides by itself, and nonzero values.
    """
    divisors = (factor.as_base_exp()[0] for factor in _sympy.Mul.make_args(_sympy.fraction(coefficient)[1]))
    return all(is_nonzero(part) or (part.is_Symbol and is_singular_at_zero(body, part)) for part in divisors)


def _undefined_without_elements_only(form: Linear, varying: Mapping[Any, Parameter], kept: Sequence[Component]) -> bool:
    """Return whether the coefficients' parameters are quotients by positive sums.

    These are sums of positive maps.
    """
    positive = {component.symbol for component in kept if component.op == "sum" and component.body.is_positive}
    used = free_symbols(form.values()) & varying.keys()
    for symbol in used:
        value = varying[symbol].value
        denominator = _sympy.fraction(_sympy.together(value))[1]
        if not value.is_rational_function() or not set(_sympy.Mul.make_args(denominator)) <= positive | {ONE}:
            return False
    return True


def _combination(columns: Sequence[Mapping[Any, Any]], target: Mapping[Any, Any]) -> list[Any] | None:
    """Return c with sum of c_j columns_j = target, or None where there is none.

    It is solved by elimination over expressions.
    """
    keys = list(dict.fromkeys(key for terms in (*columns, target) for key in terms))
    zero = _sympy.Integer(0)
    rows = [[terms.get(key, zero) for terms in (*columns, target)] for key in keys]
    pivots: list[int] = []
    for column in range(len(columns)):
        row = next((i for i in range(len(pivots), len(rows)) if not is_zero(rows[i][column])), None)
        if row is None:
            continue
        top = len(pivots)
        rows[top], rows[row] = rows[row], rows[top]
        pivot = rows[top][column]
        rows[top] = [tidy(entry / pivot) for entry in rows[top]]
        for i, other in enumerate(rows):
            if i != top and other[column] != 0:
                rows[i] = [tidy(entry - other[column] * first) for entry, first in zip(other, rows[top], strict=True)]
        pivots.append(column)
    if any(not is_zero(row[-1]) for row in rows[len(pivots) :]):
        return None
    solution = [zero] * len(columns)
    for row, column in enumerate(pivots):
        solution[column] = rows[row][-1]
    return solution


def _without_known(repair: Linear, known: Mapping[Any, Linear]) -> Linear:
    """Return the repair with each known component replaced by its combination.

    Parameters are at the old reference.
    """
    result: dict[Any, Any] = {}
    for symbol, coefficient in repair.items():
        parts = known.get(symbol, {symbol: ONE})
        for part, factor in parts.items():
            own = factor.xreplace({free: old_symbol(free) for free in factor.free_symbols}) if symbol in known else factor
            result[part] = result.get(part, _sympy.Integer(0)) + coefficient * own
    tidied = {symbol: tidy(coefficient) for symbol, coefficient in result.items()}
    return {symbol: coefficient for symbol, coefficient in tidied.items() if coefficient != 0}
