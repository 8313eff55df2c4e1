"""Identities of exponentials, logarithms and quotients are decided.

Intervals contain their values.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
import sympy

from ioaware.analysis.fusion.expressions.algebra import is_nonzero, is_zero, tidy
from ioaware.analysis.fusion.expressions.arithmetic import evaluate
from ioaware.analysis.fusion.expressions.interval_arithmetic import (
    IntervalNumbers,
    UndecidedError,
    has_zero,
    interval,
    proven_rank,
)

A, B = sympy.symbols("a b", real=True)
P = sympy.Symbol("p", positive=True)
NUMBERS = IntervalNumbers()


@pytest.mark.parametrize(
    "expr",
    [
        sympy.exp(A - B) * sympy.exp(B) - sympy.exp(A),
        sympy.exp(A / 2 + B) ** 2 - sympy.exp(A) * sympy.exp(2 * B),
        sympy.log(P * sympy.exp(A)) - A - sympy.log(P),
        (A**2 - B**2) / (A - B) - A - B,
        sympy.exp(sympy.Rational(1, 3) * A) ** 3 - sympy.exp(A),
    ],
)
def test_zero_is_recognised(expr: sympy.Expr) -> None:
    assert is_zero(expr)


@pytest.mark.parametrize("expr", [sympy.exp(A - B) - 1, A - B, sympy.log(P) - P, sympy.exp(A) - sympy.exp(2 * A)])
def test_nonzero_expressions_are_not_called_zero(expr: sympy.Expr) -> None:
    assert not is_zero(expr)


def test_a_symbol_may_be_zero_though_it_cannot_be_negative() -> None:
    assert is_nonzero(sympy.exp(A) / P)
    assert not is_nonzero(P)


def test_exponentials_merge_for_reading() -> None:
    assert tidy(P * sympy.exp(A) / sympy.exp(B)) == P * sympy.exp(A - B)


def test_intervals_contain_and_exclude() -> None:
    third = evaluate(P * 3 - 1, {P: interval(Fraction(1, 3))}, NUMBERS)
    assert has_zero(third)
    assert not has_zero(evaluate(P * 3 - 1, {P: interval(Fraction(1, 3) + Fraction(1, 10**90))}, NUMBERS))
    with pytest.raises(UndecidedError):
        evaluate(1 / P, {P: interval(Fraction(-1), Fraction(1))}, NUMBERS)
    with pytest.raises(UndecidedError):
        evaluate(sympy.log(P), {P: interval(Fraction(0))}, NUMBERS)


def test_a_rank_is_proven_or_not_claimed() -> None:
    hilbert = [[interval(Fraction(1, i + j + 1)) for j in range(10)] for i in range(10)]
    assert proven_rank(hilbert) == 10
    rank_two = [[interval(Fraction(i + 3 * j, 7)) for j in range(5)] for i in range(5)]
    assert proven_rank(rank_two) == 2
    wide = [[interval(Fraction(-1), Fraction(1))] * 2] * 2
    assert proven_rank(wide) == 0
