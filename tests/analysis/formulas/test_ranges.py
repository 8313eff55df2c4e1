"""Simplification by the ranges of symbols keeps the value everywhere in them."""

from __future__ import annotations

import random

import pytest
import sympy

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.formulas.functions import Holds, index, positive_symbols
from ioaware.analysis.formulas.printing import show
from ioaware.analysis.formulas.ranges import implied, ranges, restrict

n, m = positive_symbols("n m")
i = index("i")


@pytest.mark.parametrize(
    ("relations", "low", "high"),
    [
        ([n <= 1024, n > 512], 513, 1024),
        ([n / 132 > 1, n / 132 <= 2], 133, 264),
        ([sympy.Lt(2 * n + 3, 20)], 1, 8),
        ([sympy.Ge(10 - n, 3)], 1, 7),
        ([sympy.Gt(10, n), n * m < 7], 1, 9),
    ],
)
def test_relations_give_the_range_of_a_symbol(relations, low: int, high: int) -> None:
    assert ranges(relations)[n] == (low, high)


@pytest.mark.parametrize(
    ("expr", "shown"),
    [
        (sympy.Min(1024, n), "n"),
        (sympy.Min(600, n), "min(600, n)"),
        (sympy.Max(0, n - 3), "n - 3"),
        (Holds(n - 2000), "0"),
        (Holds(n - 513), "1"),
        (sympy.Min(64, sympy.ceiling(n / 16)), "ceil(n/16)"),
        (sympy.Min(sympy.ceiling(n * i / 8 + n / 8), sympy.ceiling(n * i / 8) + 128), "ceil((i*n + n)/8)"),
        (sympy.Max(sympy.Min(2000, n) - 400, 0), "n - 400"),
    ],
)
def test_terms_decided_by_the_range_are_simplified(expr: sympy.Expr, shown: str) -> None:
    assert show(restrict(expr, {n: (513, 1024)})) == shown


def test_implied_conditions() -> None:
    known = ranges([n > 512, n <= 1024])
    assert implied(n <= 1024, known)
    assert implied(n > 512, known)
    assert not implied(n > 513, known)
    assert not implied(n < 1024, known)
    assert not implied(m < 5, known)


def test_random_formulas_keep_their_values() -> None:
    draw = random.Random(1)

    def term(depth: int) -> sympy.Expr:
        if depth == 0:
            return draw.choice([n, m, sympy.Integer(draw.randint(-9, 40)), draw.randint(1, 4) * n - draw.randint(0, 30)])
        kind = draw.choice([sympy.Min, sympy.Max, "ceil", "floor", "+", "*", "holds"])
        one, other = term(depth - 1), term(depth - 1)
        if kind in ("ceil", "floor"):
            return (sympy.ceiling if kind == "ceil" else sympy.floor)(one / draw.randint(2, 9))
        if kind == "holds":
            return Holds(one - other)
        return one + other if kind == "+" else one * other if kind == "*" else kind(one, other, evaluate=False)

    changed = 0
    for _ in range(300):
        expr = term(draw.randint(1, 3))
        lows = [draw.randint(1, 20) for _ in range(2)]
        known = {symbol: (low, low + draw.randint(0, 15)) for symbol, low in zip((n, m), lows, strict=True)}
        simple = restrict(expr, known)
        changed += simple != expr
        for _ in range(12):
            values = {str(symbol): draw.randint(*ends) for symbol, ends in known.items()}
            assert evaluate(simple, values) == evaluate(expr, values), (expr, simple, values)
    assert changed > 50
