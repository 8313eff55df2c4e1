"""Leading terms of exact counts."""

from __future__ import annotations

import pytest
import sympy

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.formulas.functions import Holds, ceil_div, floor_div, index, largest, positive_symbols, series, smallest
from ioaware.analysis.formulas.leading_term import _confirmed, leading, leading_term

N, d, b = positive_symbols("N d b")
i = index("i")


@pytest.mark.parametrize(
    ("count", "leading"),
    [
        (4 * N * ceil_div(N, 64) + 128 * N, N**2 / 16),
        (N * d + N**2 + b * N * d + 7, b * N * d),
        (N**2 + N * d + N, N**2 + N * d),
        (series(64 * (i + 1), i, ceil_div(N, 64)), N**2 / 128),
        (floor_div(N, 2) * 4, 2 * N),
        (sympy.Integer(12), sympy.Integer(12)),
        (N * smallest(N, 64), 64 * N),
        (largest(N - d, 0) + 5, largest(N - d, 0)),
        (N / d + N, N),
        (sympy.Mod(N, 64) + N, N),
        (N * Holds(N - 5) + N * floor_div(132, N), N),
        (series(smallest(64 * i + 64, N), i, ceil_div(N, 64)), N**2 / 128),
        (series(smallest(64 * i + 64 - N + b, b), i, ceil_div(N, 64)), b * N / 64 - N**2 / 128),
        (
            series(smallest(64 * i + 64, b), i, ceil_div(N, 64)),
            b * N / 64 - b * smallest(b, N) / 64 + smallest(b, N) ** 2 / 128,
        ),
        (series(largest(0, smallest(N - i * ceil_div(N, 132), ceil_div(N, 132))), i, smallest(N, 132)), N),
    ],
)
def test_leading_term_when_all_parameters_grow(count: sympy.Expr, leading: sympy.Expr) -> None:
    assert leading_term(count) == leading


@pytest.mark.parametrize(
    ("count", "why"),
    [
        (N * ceil_div(N, d), "rounds a ratio"),
        (sympy.Mod(N, 64) + 3, "remainder"),
        (N * (N - 64 * floor_div(N, 64)) + N, "cancel"),
        (largest(64 - N, 0), "vanish"),
        (sympy.Piecewise((N, sympy.Gt(N, d)), (d, True)), "two sides"),
    ],
)
def test_a_missing_leading_term_has_a_reason(count: sympy.Expr, why: str) -> None:
    assert leading(count).term is None
    assert why in leading(count).why


def test_leading_term_under_a_divisibility_condition() -> None:
    whole = sympy.Eq(sympy.Mod(N, 8), 0)
    found = leading(3 * N + sympy.Piecewise((4 * N, whole), (32 * ceil_div(N, 8) + N, True)))
    assert (found.term, found.where) == (7 * N, whole)


def test_leading_term_of_a_sum_under_a_divisibility_condition() -> None:
    whole = sympy.Eq(sympy.Mod(N, 8), 0)
    count = series(smallest(8, 16 * i + 16 + N / 8 - 16 * ceil_div(N, 128)), i, ceil_div(N, 128))
    assert leading(sympy.Piecewise((count, whole), (N, True))).term == N / 16
    assert leading(series(smallest(b, i + N / 7), i, N)).term is None


def test_the_limit_is_that_of_the_exact_values() -> None:
    """At lengths 1000 times as large, formulas are within 2 % of the leading term.

    Each formula is within 2 % of its own leading term.
    """
    counts = [
        series(largest(0, smallest(N - i * ceil_div(N, 132), ceil_div(N, 132))), i, smallest(N, 132)) * d,
        series(smallest(64 * i + 64 - N + b, b), i, ceil_div(N, 64)),
        series(64 * (i + 1), i, ceil_div(N, 64)) + d * smallest(N, b),
    ]
    values = {"N": 300_001, "d": 70_003, "b": 400_009}
    for count in counts:
        term = leading(count).term
        assert term is not None
        at: sympy.Expr = term.subs({symbol: values[str(symbol)] for symbol in term.free_symbols})
        assert abs(evaluate(count, values) / float(at) - 1) < 0.02


def test_an_unknown_does_not_grow_with_the_parameters() -> None:
    data = sympy.Symbol("label@file.py:7", integer=True)
    turns = sympy.Symbol("iterations@file.py:9", integer=True, nonnegative=True)
    left_out = Holds(data + 100) * Holds(-data - 100)
    assert leading_term(N * d - N * d * left_out + 3 * N) == N * d - N * d * left_out
    assert leading_term(4 * turns * N + 4 * N + 1) == 4 * turns * N + 4 * N
    assert leading_term(N * sympy.ceiling(data / 32) + 5) == N * sympy.ceiling(data / 32)
    assert leading_term(2 * N * sympy.Max(0, sympy.Min(512, data))) == 2 * N * sympy.Max(0, sympy.Min(512, data))


@pytest.mark.parametrize(
    ("factor", "confirmed"), [(1, True), (sympy.Rational(3, 2), True), (3, False), (sympy.Rational(1, 3), False)]
)
def test_a_term_of_another_size_than_its_sum_is_not_confirmed(factor: sympy.Expr, confirmed: bool) -> None:
    """The sum of k below n is n^2/2.

    A sum that partly vanishes may look several times larger.
    """
    n, k = positive_symbols("n")[0], index("k")
    assert _confirmed(series(k, k, n), factor * n**2 / 2) == confirmed
