"""Case distinctions inside each other: a case that was asked about already is not asked about again."""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr

_sympy: Any = sympy


def flattened(expr: Expr) -> Expr:
    """The formula with every Piecewise whose outcome an outer one settles replaced by that outcome."""
    whole: Any = expr
    nodes = sorted(whole.atoms(sympy.Piecewise), key=lambda node: -node.count_ops())
    outcomes = {node: found for node in nodes if (found := _flat(node)) != node}
    for node, found in outcomes.items():  # outer ones first: what they held is gone then
        whole = whole.xreplace({node: found})
    return whole


def _flat(node: Any) -> Any:
    """The cases of one Piecewise, each in the knowledge that its own condition holds and those before it do not."""
    cases: list[tuple[Any, Any]] = []
    before: dict[Any, Any] = {}
    for value, condition in node.args:
        known = dict(before)
        if condition != sympy.true:
            known[condition] = sympy.true
            before[condition] = sympy.false
        cases.append((_settled(value, known), condition))
    return _sympy.Piecewise(*cases)


def _settled(value: Any, known: dict[Any, Any]) -> Any:
    """A case's value, in which conditions are known to hold or not."""
    inner = sorted(value.atoms(sympy.Piecewise), key=lambda node: node.count_ops())
    for node in inner:
        kept = [(one, known.get(condition, condition)) for one, condition in node.args]
        value = value.xreplace({node: _sympy.Piecewise(*kept)})
    return value
