"""Flatten nested case distinctions.

A condition that an outer case decides is resolved.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr

from ioaware.analysis.formulas.common_parts import Substitution, count_parts, parts_of

_sympy: Any = sympy


def flatten(expr: Expr) -> Expr:
    """Replace every Piecewise that an outer one decides by its outcome."""
    whole: Any = expr
    nodes = sorted(parts_of(whole, sympy.Piecewise), key=lambda node: -count_parts(node))
    outcomes = {node: found for node in nodes if (found := _flat(node)) != node}
    for node, found in outcomes.items():  # outer ones first: they contain the others
        whole = Substitution({node: found})(whole)
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
    inner = sorted(parts_of(value, sympy.Piecewise), key=count_parts)
    for node in inner:
        kept = [(one, known.get(condition, condition)) for one, condition in node.args]
        value = Substitution({node: _sympy.Piecewise(*kept)})(value)
    return value
