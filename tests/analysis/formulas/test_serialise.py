"""Formulas survive serialisation to plain data, and invalid data are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sympy

from ioaware.analysis.formulas.functions import Holds, ceil_div, floor_div, index, largest, positive_symbols, series, smallest
from ioaware.analysis.formulas.serialise import UnknownKindError, from_nodes, to_nodes

n, m = positive_symbols("n m")
i = index("i")
anything = sympy.Symbol("labels@file.py:7", integer=True)

FORMULAS = (
    sympy.Integer(2**80),
    sympy.Rational(-1, 3) * n**2 + n * m - 7,
    4 * n * ceil_div(m, 64) + floor_div(n - 1, m) ** 2,
    smallest(n, 132) * largest(0, n - m),
    n * Holds(n - m) * Holds(anything),
    sympy.Mod(n, 2 * m),
    series(smallest(n, i * m), i, ceil_div(n, 128)),
    sympy.Piecewise((n, sympy.And(n > 3, m <= 5)), (m, sympy.Or(sympy.Eq(n, m), sympy.Ne(m, 2))), (0, True)),
    sympy.Mul(2, n + m, evaluate=False),
    sympy.Not(sympy.Lt(n, m)) & sympy.Ge(n, 2),
)


@pytest.mark.parametrize("expr", FORMULAS, ids=str)
def test_formulas_survive_a_round_trip(expr: Any) -> None:
    nodes, (place,) = to_nodes([expr])
    back = from_nodes(json.loads(json.dumps(nodes)))[place]
    assert back == expr
    assert str(back) == str(expr)
    assert [symbol.assumptions0 for symbol in sorted(back.free_symbols, key=str)] == [
        symbol.assumptions0 for symbol in sorted(expr.free_symbols, key=str)
    ]


def test_shared_subexpressions_are_written_once() -> None:
    nodes, places = to_nodes([n * m, n * m + 1, n])
    assert len(nodes) == 5
    assert [from_nodes(nodes)[place] for place in places] == [n * m, n * m + 1, n]


@pytest.mark.parametrize("expr", [sympy.sin(n), sympy.Dummy("n"), sympy.oo, sympy.Float(1.5)], ids=str)
def test_another_kind_is_refused(expr: Any) -> None:
    with pytest.raises(UnknownKindError):
        to_nodes([expr])


@pytest.mark.parametrize(
    "nodes",
    [
        [["Add", 0]],
        [["integer", "1"], ["Add", 0, 1]],
        [["integer", "1"], ["Add", 0, -1]],
        [["integer", "1"], ["Add", True]],
        [["__import__", "os"]],
        [["sin", 0]],
        [["integer", "x"]],
        [["integer", "1"], ["integer", "0"], ["Pow", 0]],
        [["symbol", "n", {"nonsense": 3}]],
        [["symbol", 7, {}]],
        ["Add"],
        [7],
        [[]],
        [["integer", "9" * 10_000]],
    ],
)
def test_invalid_data_are_refused(nodes: Any) -> None:
    with pytest.raises(UnknownKindError):
        from_nodes(nodes)
