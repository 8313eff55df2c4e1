"""State the identities that make a one-pass fold equal to the program.

Each is decided symbolically for all references.

A(X; a) is a state summed over elements X at the reference a. The combiner is C(A, B) = T(a1, b) A + T(a2, b) B. The identities
are T(a, a) = I, T(b, c) T(a, b) = T(a, c), and that the maps at b are the repaired maps at a. The last makes C exact for
arbitrary references. The first two give it its neutral element and make it associative. Maxima have the same with x -> beta x +
alpha.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from ioaware.analysis.fusion.expressions.algebra import is_zero
from ioaware.analysis.fusion.expressions.elementwise import with_absolute_values
from ioaware.analysis.fusion.lifting.lifted_reductions import ONE, Component, Lifted, Linear, old_symbol

_sympy: Any = sympy


@dataclass(frozen=True, slots=True)
class Identity:
    """Statement `what`, and whether it is proven."""

    what: str
    proven: bool


def identities(lifted: Lifted, inputs: Iterable[Any]) -> Iterator[Identity]:
    """Yield the identities of one lifted reduction.

    None where its map uses no result that changes.
    """
    if not lifted.parameters:
        return
    forms = {component.symbol: form for component, form in zip(lifted.components, lifted.repair, strict=True)}
    symbols = [parameter.symbol for parameter in lifted.parameters]
    if any(component.op != "sum" for component in lifted.components):
        increasing = all(form.get(name, ONE).is_positive for name, form in forms.items())
        yield Identity("T(a, b) increases, so that it maps a maximum to the maximum", increasing)
    yield Identity("T(a, a) = I", all(_is_identity(name, form, symbols) for name, form in forms.items()))
    yield Identity("T(b, c) T(a, b) = T(a, c) for all a, b, c", all(_composes(name, forms, symbols) for name in forms))
    merged = all(_merges(component, lifted, forms[component.symbol], inputs) for component in lifted.components)
    yield Identity("f(x; b) = T(a, b) f(x; a) for all x, a, b: C is exact whatever the references of its sides", merged)
    bodies = {component.symbol: component.body for component in lifted.components}
    difference = lifted.value.xreplace(bodies) - lifted.reduction.body
    yield Identity("f(x; b) is the value of its own state", is_zero(with_absolute_values(difference)))


def _like(symbol: Any, suffix: str) -> Any:
    return _sympy.Dummy(symbol.name + suffix, positive=True) if symbol.is_positive else _sympy.Dummy(symbol.name, real=True)


def _is_identity(name: Any, form: Linear, symbols: Sequence[Any]) -> bool:
    """Return whether nothing changes when the reference does not."""
    same = {old_symbol(symbol): symbol for symbol in symbols}
    parts = {name: _sympy.Integer(0), **form}
    return all(is_zero(factor.xreplace(same) - int(symbol == name)) for symbol, factor in parts.items())


def _composes(name: Any, forms: Mapping[Any, Linear], symbols: Sequence[Any]) -> bool:
    """Return whether a repair from a to b and one from b to c are that from a to c."""
    third = {symbol: _like(symbol, "_c") for symbol in symbols}
    later = {**third, **{old_symbol(symbol): symbol for symbol in symbols}}
    difference = {part: -factor.xreplace(third) for part, factor in forms[name].items()}
    for symbol, factor in forms[name].items():
        for part, inner in ({ONE: ONE} if symbol == ONE else forms[symbol]).items():
            difference[part] = difference.get(part, _sympy.Integer(0)) + factor.xreplace(later) * inner
    return all(map(is_zero, difference.values()))


def _merges(component: Component, lifted: Lifted, form: Linear, inputs: Iterable[Any]) -> bool:
    """Return whether elements of both sides are repaired to the maps at a third.

    Each element is at its own reference before, and the third is a reference too.
    """
    difference = _sympy.Integer(0)
    for side in ("1", "2"):
        element = {symbol: _like(symbol, side) for symbol in inputs}
        reference = {parameter.symbol: _like(parameter.symbol, side) for parameter in lifted.parameters}
        bodies = {other.symbol: other.body.xreplace({**element, **reference}) for other in lifted.components}
        old = {old_symbol(symbol): value for symbol, value in reference.items()}
        repaired = [factor.xreplace(old) * bodies.get(symbol, ONE) for symbol, factor in form.items()]
        difference += component.body.xreplace(element) - _sympy.Add(*repaired)
    return is_zero(difference)
