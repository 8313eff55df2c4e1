"""Serialise formulas exactly: a list of nodes, children before parents.

Safe for untrusted files: a node's kind is looked up in a table; nothing is parsed, evaluated or simplified.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import sympy
from sympy import Expr, Symbol

from ioaware.analysis.formulas.functions import Holds, Series

_sympy: Any = sympy
INTEGER, RATIONAL, SYMBOL = "integer", "rational", "symbol"
KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(
            sympy.Add,
            sympy.Mul,
            sympy.Pow,
            sympy.Mod,
            sympy.floor,
            sympy.ceiling,
            sympy.Max,
            sympy.Min,
            sympy.Sum,
            Series,
            Holds,
        ),
        *(sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge, sympy.And, sympy.Or, sympy.Not),
        *(sympy.Tuple, sympy.Piecewise, _sympy.functions.elementary.piecewise.ExprCondPair),
    )
}
ASSUMPTIONS = frozenset(_sympy.Symbol("n", integer=True, positive=True).assumptions0) | {"even", "odd", "prime", "composite"}
"""sympy's assumptions of integer symbols."""
ATOMS: dict[str, Any] = {"true": sympy.true, "false": sympy.false}
AS_GIVEN = frozenset({"Tuple", "ExprCondPair", "Sum", "Series"})
"""Kinds of nodes that are rebuilt from their arguments unchanged."""


class UnknownKindError(ValueError):
    """A node kind outside the table, or data that is not a formula."""


def to_nodes(exprs: Iterable[Expr]) -> tuple[list[list[Any]], list[int]]:
    """Return the distinct nodes of all formulas and the node of each formula.

    Raises `UnknownKindError`.
    """
    nodes: list[list[Any]] = []
    places: dict[Any, int] = {}

    def place(expr: Any) -> int:
        if expr not in places:
            node = _node(expr, place)
            places[expr] = len(nodes)
            nodes.append(node)
        return places[expr]

    return nodes, [place(expr) for expr in exprs]


def _node(expr: Any, place: Any) -> list[Any]:
    if expr.is_Integer:
        return [INTEGER, str(expr)]
    if expr.is_Rational:
        return [RATIONAL, str(expr.p), str(expr.q)]
    if type(expr) is Symbol:
        assumptions: dict[str, bool | None] = cast(Any, expr).assumptions0
        return [SYMBOL, expr.name, {name: value for name, value in sorted(assumptions.items()) if value is not None}]
    for name, atom in ATOMS.items():
        if expr is atom:
            return [name]
    name = type(expr).__name__
    if KINDS.get(name) is not type(expr):
        raise UnknownKindError(name)
    return [name, *map(place, expr.args)]


def from_nodes(nodes: Sequence[Any]) -> list[Any]:
    """Return the formula of each node.

    Raises `UnknownKindError` for data that `to_nodes` does not make.
    """
    made: list[Any] = []
    for node in nodes:
        try:
            made.append(_made(node, made))
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, AssertionError) as error:
            raise UnknownKindError(f"no formula: {error}") from error
    return made


def _made(node: Sequence[Any], made: Sequence[Any]) -> Any:
    name, *rest = node
    if name == INTEGER:
        (digits,) = rest
        return _sympy.Integer(int(digits))
    if name == RATIONAL:
        numerator, denominator = rest
        return _sympy.Rational(int(numerator), int(denominator))
    if name == SYMBOL:
        symbol, assumptions = rest
        if not assumptions.keys() <= ASSUMPTIONS or not all(isinstance(value, bool) for value in assumptions.values()):
            raise ValueError("not an assumption of symbols")
        return _sympy.Symbol(symbol, **assumptions)
    if name in ATOMS:
        return ATOMS[name]
    kind: Any = KINDS[name]
    args = [made[child] for child in _children(rest)]
    if name in ("Add", "Mul"):
        return kind._from_args(args)  # builds it without simplification
    return kind(*args) if name in AS_GIVEN else kind(*args, evaluate=False)


def _children(places: Sequence[Any]) -> Sequence[int]:
    if any(type(place) is not int or place < 0 for place in places):
        raise ValueError("a child must be the number of an earlier node")
    return places
