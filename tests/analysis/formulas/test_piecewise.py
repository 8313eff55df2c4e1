"""Simplified nested piecewise formulas have fewer cases and the same values."""

from __future__ import annotations

import random

import sympy

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.formulas.functions import index, positive_symbols
from ioaware.analysis.formulas.piecewise import flatten
from ioaware.analysis.formulas.printing import show

n, m = positive_symbols("n m")
i = index("i")
EVEN, SMALL = sympy.Eq(sympy.Mod(n, 8), 0), sympy.Lt(m, 5)


def test_a_case_decided_by_an_outer_case_is_removed() -> None:
    inner = sympy.Piecewise((n / 8, EVEN), (sympy.Sum(sympy.floor(n * i / 8), (i, 0, m)), True))
    outer = sympy.Piecewise((4 * n + inner, EVEN), (m + 32 * inner, True), evaluate=False)
    assert show(flatten(outer)) == "(33*n/8 if n % 8 == 0 else m + 32*sum(floor(i*n/8) for i in range(m + 1)))"


def test_values_stay() -> None:
    draw = random.Random(5)

    def term(depth: int) -> sympy.Expr:
        if depth == 0:
            return draw.choice([n, m, n * m, sympy.Integer(draw.randint(0, 9))])
        if draw.random() < 0.6:
            first = (term(depth - 1), draw.choice([EVEN, SMALL]))
            return sympy.Piecewise(first, (term(depth - 1), True), evaluate=False)
        return term(depth - 1) + draw.randint(1, 3) * term(depth - 1)

    changed = 0
    for _ in range(150):
        expr = term(4)
        simple = flatten(expr)
        changed += simple != expr
        for _ in range(6):
            values = {"n": draw.choice([8, 16, draw.randint(1, 40)]), "m": draw.randint(1, 9)}
            assert evaluate(simple, values) == evaluate(expr, values), (expr, simple)
    assert changed > 30
