"""Flatten nested case distinctions.

A condition that an outer case decides is resolved.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr

_sympy: Any = sympy


def flatten(expr: Expr) -> Expr:
    """Replace every Piecewise that an outer one decides by its outcome."""
    whole: Any = expr
    nodes = sorted(whole.atoms(sympy.Piecewise), key=lambda node: -node.count_ops())
    outcomes = {node: found for node in nodes if (found := _flat(node)) != node}
    for node, found in outcomes.items():  # outer ones first: they contain the others
        whole = whole.xreplace({node: found})
    return whole


def _flat(node: Any) -> Any:
    """Flatten the cases of one Piecewise.

    In each case, its condition is true and earlier ones are false.
    """
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
    """Return a case's value with the conditions known to hold or fail resolved."""
    inner = sorted(value.atoms(sympy.Piecewise), key=lambda node: node.count_ops())
    for node in inner:
        kept = [(one, known.get(condition, condition)) for one, condition in node.args]
        value = value.xreplace({node: _sympy.Piecewise(*kept)})
    return value
