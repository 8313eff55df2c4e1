"""Lift a reduction with a map of unfinished results to a repairable state.

The state can be repaired when the results change.

A state belongs to a reference a, the value of its parameters when it was summed. When they become b, a sum of rank r is
repaired by a matrix: A(b) = T(a, b) A(a) with T(a, b) = H(b) H(a)^-1. The rows of H are the map's coefficients and their
derivatives in the basis of `separation`. A maximum is repaired by an increasing affine function.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement, count
from typing import Any

import sympy

from ioaware.analysis.fusion.expressions.algebra import is_nonzero, tidy
from ioaware.analysis.fusion.lifting.separation import Terms, independent_terms, separate
from ioaware.analysis.fusion.programs.program import Parameter, Reduction

_sympy: Any = sympy
MAX_DERIVED_RANK = 5
"""Above this rank the state is the sums of the g_k, which need no repair."""
MAX_CANDIDATES = 10

Linear = Mapping[Any, Any]
"""Coefficients of components by their symbols, and a constant under 1."""
ONE = _sympy.Integer(1)


@dataclass(frozen=True, slots=True)
class Component:
    """One number of the state: `symbol` = `op` over the elements of `body`.

    It is taken at the reference.
    """

    symbol: Any
    op: str
    body: Any


@dataclass(frozen=True)
class Lifted:
    """Reduction as components, each one's repair, and the value from them.

    The reduction's value is computed from them at the reference.

    `repair` has for each component the coefficient of each component, and of 1; `value` those of the reduction's value.
    Coefficients use the parameters at the new reference by their symbols, at the old one by `old_symbol` of these.
    """

    reduction: Reduction
    parameters: tuple[Parameter, ...]
    components: tuple[Component, ...]
    repair: tuple[Linear, ...]
    value: Any
    rank: int
    terms: Terms

    def with_names_apart(self, taken: Container[str]) -> Lifted:
        """Return the same with other names for components that meet names in use."""
        names: dict[Any, Any] = {}
        for component in self.components:
            symbol = component.symbol
            if symbol != self.reduction.symbol and symbol.name in taken:
                free = next(name for n in count(2) if (name := f"{symbol.name}_{n}") not in taken)
                names[symbol] = _sympy.Symbol(free, real=True)
        components = tuple(replace(c, symbol=names.get(c.symbol, c.symbol)) for c in self.components)
        repair = tuple({names.get(symbol, symbol): factor for symbol, factor in form.items()} for form in self.repair)
        return replace(self, components=components, repair=repair, value=self.value.xreplace(names))


def old_symbol(symbol: Any) -> Any:
    """Return the symbol of a parameter at the old reference."""
    assumptions = {"positive": True} if symbol.is_positive else {"real": True}
    return _sympy.Symbol(f"{symbol.name}_old", **assumptions)


def lift(reduction: Reduction, inputs: frozenset[Any], varying: Sequence[Parameter]) -> Lifted | None:
    """Return the reduction lifted over the parameters that vary in its pass.

    None is returned where no rule finds a finite state.
    """
    if not varying:
        component = Component(reduction.symbol, reduction.op, reduction.body)
        return Lifted(reduction, (), (component,), ({reduction.symbol: ONE},), reduction.symbol, 1, {reduction.body: ONE})
    if reduction.op == "sum":
        return _lift_sum(reduction, inputs, tuple(varying))
    return _lift_extreme(reduction, inputs, tuple(varying))


def extra_symbol(reduction: Reduction, number: int, body: Any = None) -> Any:
    """Return the symbol of a component that is not the reduction's own value.

    It is out_v for a sum of v, else out_a, out_b, ...
    """
    suffix = body.name if body is not None and body.is_Symbol else chr(ord("a") + number)
    return _sympy.Symbol(f"{reduction.name}_{suffix}", real=True)


def terms_in_inputs(body: Any, inputs: frozenset[Any], varying: Sequence[Parameter]) -> Terms | None:
    """Return a map's separation with constant parameters counted as known numbers.

    Parameters that do not vary count so, beside the elements.
    """
    fixed = body.free_symbols - {parameter.symbol for parameter in varying}
    terms = separate(body, inputs | fixed)
    return None if terms is None else independent_terms(terms)


def _lift_sum(reduction: Reduction, inputs: frozenset[Any], varying: tuple[Parameter, ...]) -> Lifted | None:
    terms = terms_in_inputs(reduction.body, inputs, varying)
    if terms is None:
        return None
    if not terms:  # 0 for all data
        component = Component(reduction.symbol, "sum", _sympy.Integer(0))
        return Lifted(reduction, (), (component,), ({reduction.symbol: ONE},), reduction.symbol, 0, {})
    coefficients = list(terms.values())
    symbols = [parameter.symbol for parameter in varying]
    outside = inputs | (reduction.body.free_symbols - set(symbols))
    basis = _reference_basis(reduction.body, coefficients, symbols, outside) or [
        _Row(g, [_sympy.Integer(int(g == other)) for other in terms]) for g in terms
    ]
    rows = _sympy.Matrix([row.coefficients for row in basis])
    inverse = rows.inv(method="ADJ")
    old = {symbol: old_symbol(symbol) for symbol in symbols}
    names = [extra_symbol(reduction, number, row.body) for number, row in enumerate(basis)]
    value_row = (_sympy.Matrix([coefficients]) * inverse).applyfunc(tidy)
    if value_row[0] == 1 and not any(value_row[1:]):
        names[0] = reduction.symbol
    state = _sympy.Matrix(names)
    transfer = (rows * inverse.xreplace(old)).applyfunc(tidy)
    components = tuple(Component(name, "sum", row.body) for name, row in zip(names, basis, strict=True))
    value = (value_row * state)[0]
    repair = tuple(_linear(names, transfer.row(number)) for number in range(len(names)))
    return Lifted(reduction, varying, components, repair, value, len(terms), terms)


def _linear(symbols: Sequence[Any], coefficients: Any) -> Linear:
    return {symbol: coefficient for symbol, coefficient in zip(symbols, coefficients, strict=True) if coefficient != 0}


@dataclass(frozen=True, slots=True)
class _Row:
    """A basis function and its coefficients over the g_k."""

    body: Any
    coefficients: list[Any]


def _reference_basis(body: Any, coefficients: list[Any], symbols: list[Any], inputs: frozenset[Any]) -> list[_Row] | None:
    """Return the map and derivatives of it with an invertible matrix, or None.

    The matrix is invertible at every reference.
    """
    rank = len(coefficients)
    if rank > MAX_DERIVED_RANK:
        return None
    candidates = _derivatives(body, coefficients, symbols, inputs)
    for rows in combinations(candidates, rank):
        if is_nonzero(_sympy.Matrix([row.coefficients for row in rows]).det(method="berkowitz")):
            return list(rows)
    return None


def _derivatives(body: Any, coefficients: list[Any], symbols: list[Any], inputs: frozenset[Any]) -> list[_Row]:
    """Return the map and its derivatives by order.

    Each is without the factor that depends on no element.
    """
    factor, rest = _rational_factor(body, inputs)
    rows = [_Row(body, coefficients), _Row(rest, [tidy(h / factor) for h in coefficients])]
    seen = {body, rest}
    for order in range(1, len(coefficients)):
        for directions in combinations_with_replacement(symbols, order):
            derivative = _sympy.diff(body, *directions)
            if derivative == 0:
                continue
            factor, rest = _rational_factor(_sympy.factor(derivative), inputs)
            if rest in seen:
                continue
            seen.add(rest)
            rows.append(_Row(rest, [tidy(_sympy.diff(h, *directions) / factor) for h in coefficients]))
    return rows[:MAX_CANDIDATES]


def _rational_factor(expr: Any, inputs: frozenset[Any]) -> tuple[Any, Any]:
    """Return (c, rest) with expr = c * rest and c free of elements.

    c is also free of exponentials, since those keep the rest in range.
    """
    factors = _sympy.Mul.make_args(expr)
    outside = [part for part in factors if not part.free_symbols & inputs and not part.has(_sympy.exp)]
    factor = _sympy.Mul(*outside)
    return factor, expr / factor


def _lift_extreme(reduction: Reduction, inputs: frozenset[Any], varying: tuple[Parameter, ...]) -> Lifted | None:
    """Lift max or min: the larger of several maps part by part.

    A part c0(p) + c1(p) g(x) is lifted by its affine repair.
    """
    parts = list(_parts_of_extreme(reduction))
    components: list[Component] = []
    repair: list[Linear] = []
    values: list[Any] = []
    extreme = _sympy.Max if reduction.op == "max" else _sympy.Min
    whole: Terms = {}
    for part in parts:
        name = extra_symbol(reduction, len(components))
        found = _affine_parts(part, name, reduction.op, inputs, varying) or _monotone(part, reduction, inputs, varying)
        if found is None:
            return None
        components += found.components
        repair += found.repair
        values.append(found.value)
        whole.update(found.terms)
    value = extreme(*values)
    if len(components) == 1 and value == components[0].symbol:
        rename = {value: reduction.symbol}
        components = [replace(components[0], symbol=reduction.symbol)]
        repair = [{rename.get(symbol, symbol): factor for symbol, factor in repair[0].items()}]
        value = reduction.symbol
    return Lifted(reduction, varying, tuple(components), tuple(repair), value, len(components), whole)


def _parts_of_extreme(reduction: Reduction) -> Iterator[Any]:
    """Yield maps with the body as their largest (for max; smallest for min).

    For example, |u| is the larger of u and -u.
    """
    body, wanted = reduction.body, _sympy.Max if reduction.op == "max" else _sympy.Min
    if body.func is wanted:
        yield from body.args
    elif reduction.op == "max" and isinstance(body, _sympy.Abs):
        yield from (body.args[0], -body.args[0])
    else:
        yield body


@dataclass(frozen=True, slots=True)
class _Part:
    components: list[Component]
    repair: list[Linear]
    value: Any
    terms: Terms


def _affine_parts(body: Any, name: Any, op: str, inputs: frozenset[Any], varying: Sequence[Parameter]) -> _Part | None:
    """Return the repair of c0(p) + c1(p) g(x) with c1 of one sign.

    Where its sign is unknown, both extremes of g are returned.
    """
    terms = terms_in_inputs(body, inputs, varying)
    if terms is None:
        return None
    constant = terms.get(ONE, _sympy.Integer(0))
    moving = [(g, h) for g, h in terms.items() if g != 1]
    if len(moving) != 1:
        return None
    ((g, slope),) = moving
    symbols = [parameter.symbol for parameter in varying]
    old = {symbol: old_symbol(symbol) for symbol in symbols}
    if is_nonzero(slope) and (slope.is_positive or slope.is_negative):
        factor = tidy(slope / slope.xreplace(old))
        offset = tidy(constant - factor * constant.xreplace(old))
        return _Part([Component(name, op, body)], [{name: factor, ONE: offset}], name, terms)
    if slope.is_positive:  # it is 0 for some data, so the reference may not scale the state
        return _Part([Component(name, op, g)], [{name: ONE}], constant + slope * name, terms)
    other = "min" if op == "max" else "max"
    best, worst = (_sympy.Symbol(f"{name.name}_{end}", real=True) for end in (op, other))
    extreme = _sympy.Max if op == "max" else _sympy.Min
    value = constant + extreme(slope * best, slope * worst)
    return _Part([Component(best, op, g), Component(worst, other, g)], [{best: ONE}, {worst: ONE}], value, terms)


def _monotone(body: Any, reduction: Reduction, inputs: frozenset[Any], varying: Sequence[Parameter]) -> _Part | None:
    """Return the part of a body F(u) with F monotone and u affine as above.

    The extreme of F(u) is F of the extreme of u; of the other extreme if F decreases.
    """
    inner = _sympy.Dummy("u", real=True)
    other = "min" if reduction.op == "max" else "max"
    for node in _sympy.preorder_traversal(body):
        if node == body or not node.free_symbols & inputs:
            continue
        outer = body.xreplace({node: inner})
        slope = _sympy.factor(_sympy.diff(outer, inner))
        if outer.free_symbols & inputs or not (slope.is_positive or slope.is_negative):
            continue
        symbol = extra_symbol(reduction, 0)
        op = reduction.op if slope.is_positive else other
        if part := _affine_parts(node, symbol, op, inputs, varying):
            return _Part(part.components, part.repair, outer.xreplace({inner: part.value}), part.terms)
    return None
