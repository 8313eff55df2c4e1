"""Prove that no state of finitely many numbers computes an output in one pass.

Otherwise the reason why that is undecided is returned.

The output must depend on one reduction K that no rule lifts, through a smooth function that is one to one in K's value there.
K's map must have infinite rank (`singularities`) at data with a continuation that can move its parameters independently.
Repeating the data must leave the parameters as they are, or the map must be analytic everywhere. Then for every n there are n
elements X and n continuations for which the output distinguishes all X near them. A continuous state needs at least n numbers
for that, less those of the earlier reductions, whatever n is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy

from ioaware.analysis.fusion.expressions.algebra import is_zero
from ioaware.analysis.fusion.expressions.arithmetic import evaluate
from ioaware.analysis.fusion.expressions.elementwise import Rint
from ioaware.analysis.fusion.expressions.interval_arithmetic import UndecidedError, has_zero, interval
from ioaware.analysis.fusion.lifting.pass_plan import Plan
from ioaware.analysis.fusion.programs.program import Program, Reduction
from ioaware.analysis.fusion.refutation.alternant import Alternant, find_alternant
from ioaware.analysis.fusion.refutation.crossings import find_crossing
from ioaware.analysis.fusion.refutation.samples import NUMBERS, Sample
from ioaware.analysis.fusion.refutation.singularities import Moving, is_analytic, moving_parts

_sympy: Any = sympy


@dataclass(frozen=True, slots=True)
class Refutation:
    """Proof that no finite state computes `reduction`, with a finite instance.

    It rests on a moving part of the reduction's map in `coordinate`.
    """

    reduction: Reduction
    coordinate: str
    moving: Moving
    sample: Sample
    alternant: Alternant
    earlier_numbers: int


def refute(plan: Plan) -> Refutation:
    """Return the proof that one pass cannot compute the program.

    Raises `UndecidedError` with the reason there is none.
    """
    reasons: list[str] = []
    for output in _late_outputs(plan):
        try:
            return _refute_output(plan, output)
        except UndecidedError as reason:
            reasons.append(str(reason))
    raise UndecidedError("; ".join(dict.fromkeys(reasons)))


def _late_outputs(plan: Plan) -> Iterator[Any]:
    """Yield the outputs that depend on a reduction of a later pass."""
    late = [lifted.reduction for part in plan.passes[1:] for lifted in part.lifted]
    for output in plan.program.outputs:
        if any(_uses(plan.program, output, reduction) for reduction in late):
            yield output


def _refute_output(plan: Plan, output: Any) -> Refutation:
    root, gathered = _in_terms_of_root(plan, output)
    program = plan.program
    if not (_is_unchanged_by_repetition(program, root) or is_analytic(root.body)):
        raise UndecidedError(f"a parameter of {root.name} grows with the number of elements, which no rule covers")
    for coordinate in program.inputs:
        if coordinate not in root.body.free_symbols:
            continue
        trials = (_moving_here(program, root, coordinate, sample, gathered) for sample in _samples(program, coordinate))
        found = next((trial for trial in trials if trial), None)
        alternant = find_alternant(program, root, coordinate) if found else None
        if found and alternant:
            numbers = len(plan.passes[0].components) + len(gathered.sums)
            return Refutation(root, coordinate.name, found[0], found[1], alternant, numbers)
    raise UndecidedError(f"no rule lifts {root.name} to a finite state, and none proves that its map has infinite rank")


def _is_unchanged_by_repetition(program: Program, root: Reduction) -> bool:
    """Return whether repeating the data leaves the root's parameters the same.

    They are compared for the data and for the data repeated any number of times.
    """
    times = _sympy.Dummy("times", positive=True)
    repeated: dict[Any, Any] = {}
    fixed: set[Any] = set()
    for reduction in program.reductions:
        if all(p.symbol in fixed for p in program.parameters_in(reduction.body)):
            factor = times if reduction.op == "sum" else 1
            repeated[reduction.symbol] = factor * reduction.symbol
        for parameter in program.parameters:
            known = parameter.value.free_symbols <= repeated.keys()
            if known and is_zero(parameter.value.xreplace(repeated) - parameter.value):
                fixed.add(parameter.symbol)
    return all(p.symbol in fixed for p in program.parameters_in(root.body))


@dataclass(frozen=True, slots=True)
class _Gathered:
    """Output over first-pass reductions, the root's value, and sums of maps.

    The reductions are those of the first pass, and the maps are of elements alone.
    """

    output: Any
    sums: Mapping[Any, Any]


def _in_terms_of_root(plan: Plan, output: Any) -> tuple[Reduction, _Gathered]:
    """Return the one reduction that needs another pass, and the output.

    In the output, those that use its result are separated from it.
    """
    number = {lifted.reduction.symbol: index for index, part in enumerate(plan.passes) for lifted in part.lifted}
    program = plan.program
    late = [reduction for reduction in program.reductions if number[reduction.symbol] and _uses(program, output, reduction)]
    roots = [reduction for reduction in late if not any(number[used] for used in program.uses(reduction))]
    if len(roots) != 1:
        names = ", ".join(root.name for root in roots)
        raise UndecidedError(f"an output uses several reductions that no rule lifts ({names}), and they might cancel")
    if roots[0].op != "sum":
        raise UndecidedError(f"no rule lifts {roots[0].name}, a {roots[0].op}, and none refutes one")
    sums: dict[Any, Any] = {}
    for reduction in reversed([reduction for reduction in late if reduction is not roots[0]]):
        lifted = next(one for part in plan.passes for one in part.lifted if one.reduction is reduction)
        if reduction.op != "sum" or number[reduction.symbol] != 1 or not lifted.parameters:
            raise UndecidedError(f"{reduction.name} uses {roots[0].name} in a way no rule separates")
        gathered = _sympy.Integer(0)
        for index, (g, h) in enumerate(lifted.terms.items()):
            if not g.free_symbols <= set(program.inputs):
                raise UndecidedError(f"{reduction.name} uses {roots[0].name} in a way no rule separates")
            symbol = _sympy.Symbol(f"{reduction.name}_sum{index}", real=True)
            sums[symbol] = g
            gathered += symbol * h.xreplace({p.symbol: p.value for p in lifted.parameters})
        output = output.xreplace({reduction.symbol: gathered})
    return roots[0], _Gathered(output, sums)


def _uses(program: Program, output: Any, reduction: Reduction) -> bool:
    needed: set[Any] = set(output.free_symbols)
    for other in reversed(program.reductions):
        if other.symbol in needed:
            needed |= program.uses(other)
    return reduction.symbol in needed


def _moving_here(
    program: Program, root: Reduction, coordinate: Any, sample: Sample, gathered: _Gathered
) -> tuple[Moving, Sample] | None:
    """Return a moving part of the root's map, with the data where it is proven.

    The map is taken at this data.
    """
    parameters = program.parameters_in(root.body)
    try:
        scope = _scope(program, root, coordinate, sample)
        for moving in moving_parts(root.body, coordinate, [p.symbol for p in parameters], scope):
            place = sample if moving.crossing is None else find_crossing(root, moving, sample)
            if place and place.steers(parameters) and _is_seen(place, root, gathered, moving):
                return moving, place
    except UndecidedError:
        return None
    return None


def _scope(program: Program, root: Reduction, coordinate: Any, sample: Sample) -> dict[Any, Any]:
    """Return the proven values of the root's parameters and of the first element."""
    parameters = {p.symbol: sample.value(sample.parameter(p)) for p in program.parameters_in(root.body)}
    element = {name: interval(value) for name, value in sample.seen[0].items()}
    return {**element, **parameters, coordinate: element[coordinate]}


def _is_seen(sample: Sample, root: Reduction, gathered: _Gathered, moving: Moving) -> bool:
    """Return whether the output depends on the root's value here.

    Its derivative is proven nonzero.
    """
    slope = _sympy.diff(gathered.output, root.symbol)
    if gathered.output.has(_sympy.Max, _sympy.Min, _sympy.Abs, Rint):
        raise UndecidedError("an output has kinks of its own")
    if moving.is_jump and root.symbol in slope.free_symbols:
        raise UndecidedError("an output is not affine in a sum that jumps")
    scope: dict[Any, Any] = {}
    for symbol in slope.free_symbols:
        body = gathered.sums.get(symbol)
        reduction = Reduction(symbol, "sum", body) if body is not None else sample.program.reduction_of[symbol]
        scope[symbol] = _value(sample, reduction)
    return not has_zero(evaluate(slope, scope, NUMBERS))


def _value(sample: Sample, reduction: Reduction) -> Any:
    """Return the interval of a reduction over the sample, each element by itself."""
    program = sample.program
    parameters = {p.symbol: sample.value(sample.parameter(p)) for p in program.parameters_in(reduction.body)}
    total: list[Any] = []
    for element in sample.elements:
        values = {name: sample.value(value) for name, value in element.items()}
        total.append(evaluate(reduction.body, {**parameters, **values}, NUMBERS))
    if reduction.op == "sum":
        return sum(total[1:], total[0])
    return NUMBERS.function("maximum" if reduction.op == "max" else "minimum", *total)


def _samples(program: Program, coordinate: Any) -> Iterator[Sample]:
    """Yield data to try: small or large, one or two elements and a continuation.

    The continuation has as many elements as there are parameters.
    """
    count = max(len(program.parameters), 1)
    for start, step in ((Fraction(3, 4), Fraction(1)), (Fraction(-2, 3), Fraction(5, 4)), (Fraction(1, 3), Fraction(3))):
        seen = tuple(
            {name: point if name == coordinate else Fraction(1) for name in program.inputs} for point in (start, start / 2)
        )
        values = [start + step * (count - number) + Fraction(number, 7) for number in range(count)]
        continuation = tuple(
            {name: (value + Fraction(i, 5), value + Fraction(i, 5)) for i, name in enumerate(program.inputs)}
            for value in values
        )
        yield Sample(program, seen, continuation)
