"""Iverson brackets in text, LaTeX and MathML."""

from __future__ import annotations

import pytest
import sympy

from ioaware.analysis.formulas.functions import Holds, positive_symbols
from ioaware.analysis.formulas.iverson import with_brackets
from ioaware.analysis.formulas.printing import show
from ioaware.cli.formula_tables import latex
from ioaware.display.mathml import mathml

N, M = positive_symbols("n m")
X = sympy.Symbol("x@file.py:7", integer=True)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Holds(N - 4), "[n >= 4]"),
        (Holds(5 - N), "[n <= 5]"),
        (Holds(-X), "[x@file.py:7 <= 0]"),
        (Holds(N - M - 3), "[n >= m + 3]"),
        (Holds(N - M + 3), "[n + 3 >= m]"),
        (3 * N * Holds(X + 100) * Holds(-X - 100), "3*n*[x@file.py:7 == -100]"),
        (Holds(X) * Holds(-X) + Holds(N - 5) * Holds(M - N), "[x@file.py:7 == 0] + [m >= n]*[n >= 5]"),
        (Holds(N - M) * Holds(M - N), "[m == n]"),
        (Holds(N - 4 * Holds(X) * Holds(-X)), "[n >= 4*[x@file.py:7 == 0]]"),
        (sympy.Piecewise((N, sympy.Ge(Holds(X + 31), 1)), (M, True)), "(n if x@file.py:7 >= -31 else m)"),
        (sympy.And(sympy.Eq(sympy.Mod(N, 4), 0), sympy.Eq(sympy.Mod(M, 8), 0)), "m % 8 == 0 and n % 4 == 0"),
    ],
)
def test_text(expr: sympy.Expr, text: str) -> None:
    assert show(expr) == text


def test_a_pair_is_an_equation_everywhere() -> None:
    pair = Holds(N - 4) * Holds(4 - N)
    assert latex(pair) == r"\left[\mathrm{n} = 4\right]"
    assert "<mo>[</mo><mi>n</mi><mo>=</mo><mn>4</mn><mo>]</mo>" in mathml(with_brackets(pair))
    assert latex(Holds(N - 4)) == r"\left[\mathrm{n} \geq 4\right]"
    assert "<mo>≥</mo>" in mathml(with_brackets(Holds(N - 4)))


def test_expressions_without_truth_value_are_unchanged() -> None:
    assert with_brackets(N + 1) == N + 1


@pytest.mark.parametrize(("value", "bracket"), [(-2, 0), (-1, 0), (0, 1), (1, 1)])
def test_a_bracket_is_1_from_0_on(value: int, bracket: int) -> None:
    assert Holds(sympy.Integer(value)) == bracket
    assert Holds(N - 1) == 1, "a positive integer less 1"
    assert Holds(-N) == 0
