"""Closed forms of sums over all remainders equal the sums."""

from __future__ import annotations

import random

import pytest
import sympy

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.formulas.functions import index, positive_symbols
from ioaware.analysis.formulas.hermite import close_floor_sums

n, m, p = positive_symbols("n m p")
i = index("i")
P = sympy.Min(132, n * m)


@pytest.mark.parametrize(
    ("body", "count", "value"),
    [
        (sympy.floor((n + i) / p), p, n),
        (sympy.floor((n - i - 1) / p), p, n - p),
        (sympy.ceiling((n - i) / p), p, n),
        (1 + sympy.floor((n * m - i - 1) / P), P, n * m),
        (4 * m * sympy.ceiling((n * m - i) / P), P, 4 * m * n * m),
    ],
)
def test_closed_as_known(body: sympy.Expr, count: sympy.Expr, value: sympy.Expr) -> None:
    found = close_floor_sums(sympy.Sum(body, (i, 0, count - 1)))
    assert sympy.expand(found - value) == 0


def test_random_sums_keep_their_value() -> None:
    draw = random.Random(3)
    done = 0
    for _ in range(120):
        count = draw.choice([p, P, sympy.Integer(draw.randint(1, 9))])
        rounding = draw.choice([sympy.floor, sympy.ceiling])
        start = draw.choice([n, n * m, n - m]) + draw.randint(-5, 5)
        divisor = draw.choice([count, count, m])
        body = draw.choice([1, m, n]) * rounding((start + draw.choice([i, -i, 2 * i])) / divisor) + draw.choice([0, m, i])
        expr = sympy.Sum(body, (i, 0, count - 1))
        simple = close_floor_sums(expr)
        done += not simple.has(sympy.floor, sympy.ceiling)
        for _ in range(4):
            values = {name: draw.randint(1, 12) for name in ("n", "m", "p")}
            assert evaluate(simple, values) == evaluate(expr, values), (expr, simple, values)
    assert done > 20
