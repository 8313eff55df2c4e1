"""Write the maps of a program differently where singular functions cancel.

Each rule is an identity of the finished results. |u| is u or -u if u is a multiple of a map less its own maximum or minimum.
The larger and the smaller of two add to their sum. The maximum of an even power is that of a magnitude. Logarithms of quotients
and sums of fractions are merged. A sum of terms c(p) g(x; p) is made of sums of the g, so that those which other sums hold
already are not computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import Any

import sympy

from ioaware.analysis.fusion.expressions.algebra import tidy
from ioaware.analysis.fusion.expressions.elementwise import with_absolute_values
from ioaware.analysis.fusion.expressions.formula_text import formula
from ioaware.analysis.fusion.programs.program import Parameter, Program, Reduction

_sympy: Any = sympy
LARGEST_MAP = 150
"""Most operations of a map that is rewritten: larger ones take minutes."""
MOST_SYMBOLS = 5
"""Most symbols of a result that is simplified, for the same reason."""
ROUNDS = 3
"""A square of |u| becomes one of u in a round, and may cancel in the next."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A program equal to another one wherever that is defined, and what changed."""

    program: Program
    changes: tuple[str, ...] = ()


def rewritings(program: Program) -> Iterator[Rewriting]:
    """Yield the program, and other forms of it that differ from those before."""
    yield Rewriting(program)
    simpler = _with_maxima_of_magnitudes(_with_simpler_maps(program))
    if simpler.changes:
        yield simpler
    shared = _with_shared_sums(simpler.program)
    if shared.changes:
        yield Rewriting(shared.program, (*simpler.changes, *shared.changes))


def _with_simpler_maps(program: Program) -> Rewriting:
    reductions: list[Reduction] = []
    changes: list[str] = []
    for reduction in program.reductions:
        body = _simpler(reduction.body, _least_zero(program, reduction))
        if body != reduction.body:
            changes.append(f"{reduction.op} of {formula(reduction.body)} = {reduction.op} of {formula(body)}")
        reductions.append(replace(reduction, body=body))
    return Rewriting(replace(program, reductions=tuple(reductions)).pruned(), tuple(changes))


def _with_maxima_of_magnitudes(before: Rewriting) -> Rewriting:
    """Return the program with (max |u|)^n for each maximum of u^n, n even."""
    program, changes = before.program, list(before.changes)
    names = {symbol.name for symbol in (*program.inputs, *program.reduction_of, *program.parameter_of)}
    kept: list[Reduction] = []
    replaced: dict[Any, Any] = {}
    for reduction in program.reductions:
        base, power = reduction.body.as_base_exp()
        magnitude = f"{reduction.name}_magnitude"
        if reduction.op != "max" or not (power.is_Integer and power > 0 and power.is_even) or magnitude in names:
            kept.append(reduction)
            continue
        kept.append(Reduction(_sympy.Symbol(magnitude, real=True), "max", _sympy.Abs(base)))
        replaced[reduction.symbol] = kept[-1].symbol ** power
        changes.append(
            f"{reduction.name} = {formula(replaced[reduction.symbol])}, {magnitude} = max of {formula(kept[-1].body)}"
        )
    return Rewriting(_substituted(program, kept, replaced), tuple(changes)) if replaced else before


def _least_zero(program: Program, reduction: Reduction) -> list[Any]:
    """Return expressions of an element that are never negative.

    They are maxima less their maps, and maps less their minima.
    """
    found: list[Any] = []
    for parameter in program.parameters_in(reduction.body):
        extreme = program.reduction_of.get(parameter.value)
        if extreme is not None and extreme.op != "sum":
            sign = 1 if extreme.op == "max" else -1
            found.append(sign * (parameter.symbol - extreme.body))
    return found


def _simpler(body: Any, never_negative: list[Any]) -> Any:
    """Return an equal map with fewer singular functions, else the map itself."""
    singular = (_sympy.Abs, _sympy.Max, _sympy.Min, _sympy.log)
    small = body.count_ops() <= LARGEST_MAP and len(body.free_symbols) <= MOST_SYMBOLS
    if not small or not body.has(*singular, _sympy.Pow):
        return body
    found = with_absolute_values(body)
    for _ in range(ROUNDS):
        before = found
        signs = {node: _with_sign(node, never_negative) for node in found.atoms(_sympy.Abs)}
        found = found.xreplace(signs)
        found = tidy(found.xreplace({node: _of_factors(node) for node in found.atoms(_sympy.log)}))
        if found == before:
            break
    return found if _singular_nodes(found) < _singular_nodes(body) else body


def _of_factors(node: Any) -> Any:
    """Return a logarithm as those of its argument's positive factors."""
    return _sympy.expand_log(_sympy.log(tidy(node.args[0])))


def _with_sign(node: Any, never_negative: list[Any]) -> Any:
    """Return u or -u for |u|, if the sign of u is known."""
    (argument,) = node.args
    for part in never_negative:
        ratio = tidy(argument / part)
        if ratio.is_nonnegative or ratio.is_nonpositive:
            return argument if ratio.is_nonnegative else -argument
    return node


def _singular_nodes(body: Any) -> int:
    """Return how many different functions with a kink, branch point or pole there are."""
    kinds = (_sympy.Abs, _sympy.Max, _sympy.Min, _sympy.log)
    reciprocals = {node.base for node in body.atoms(_sympy.Pow) if node.exp.is_negative and not node.base.is_Symbol}
    return len(body.atoms(*kinds)) + len(reciprocals)


def _with_shared_sums(program: Program) -> Rewriting:
    """Return the program with each sum made of sums without factors of parameters.

    Of equal ones only the first is computed.
    """
    inputs = set(program.inputs)
    names = {symbol.name for symbol in (*inputs, *program.reduction_of, *program.parameter_of)}
    value_of = {parameter.symbol: parameter.value for parameter in program.parameters}
    kept: list[Reduction] = []
    replaced: dict[Any, Any] = {}
    sum_of: dict[Any, Any] = {}
    changes: list[str] = []
    for reduction in program.reductions:
        terms = _terms(with_absolute_values(reduction.body), inputs) if reduction.op == "sum" else {}
        if reduction.op != "sum" or (terms.keys() == {reduction.body} and reduction.body not in sum_of):
            sum_of[reduction.body if reduction.op == "sum" else reduction.symbol] = reduction.symbol
            kept.append(reduction)
            continue
        total = _sympy.Integer(0)
        for number, (body, factor) in enumerate(terms.items()):
            if body not in sum_of:
                name = next(n for end in ascii_lowercase[number:] if (n := f"{reduction.name}_{end}") not in names)
                names.add(name)
                sum_of[body] = _sympy.Symbol(name, real=True)
                changes.append(f"{name} = sum of {formula(body)}")
                kept.append(Reduction(sum_of[body], "sum", body))
            total += factor.xreplace(value_of) * sum_of[body]
        replaced[reduction.symbol] = total
        changes.append(f"{reduction.name} = {formula(total)}")
    return Rewriting(_substituted(program, kept, replaced), tuple(changes)) if replaced else Rewriting(program)


def _terms(body: Any, inputs: set[Any]) -> dict[Any, Any]:
    """Return the factor of each g in a map: sum of c(p) g(x; p)."""
    terms: dict[Any, Any] = {}
    top, bottom = _sympy.fraction(body)
    for term in _sympy.Add.make_args(_sympy.expand_mul(top)):
        factor, rest = (term / bottom).as_independent(*inputs, as_Add=False)
        terms[rest] = terms.get(rest, _sympy.Integer(0)) + factor
    return terms


def _substituted(program: Program, kept: list[Reduction], replaced: Mapping[Any, Any]) -> Program:
    """Return the program of other reductions, whose results replace former ones."""

    def current(expr: Any) -> Any:
        while replaced.keys() & expr.free_symbols:
            expr = expr.xreplace(replaced)
        return tidy(expr) if len(expr.free_symbols) <= MOST_SYMBOLS and expr.count_ops() <= LARGEST_MAP else expr

    values = {parameter.symbol: current(parameter.value) for parameter in program.parameters}
    known = {symbol: value for symbol, value in values.items() if not value.free_symbols}
    parameters = tuple(Parameter(symbol, value) for symbol, value in values.items() if symbol not in known)
    reductions = [replace(reduction, body=reduction.body.xreplace(known)) for reduction in kept]
    outputs = tuple(current(output) for output in program.outputs)
    return replace(program, parameters=parameters, reductions=tuple(reductions), outputs=outputs).pruned()
