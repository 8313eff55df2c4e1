"""Divisibility conditions in formulas are merged, exact roundings are removed."""

from __future__ import annotations

from itertools import product

import sympy
from sympy import Eq, Mod, Piecewise, ceiling, floor

from ioaware.analysis.formulas.divisibility_cases import cases, drop_exact_roundings
from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.formulas.functions import Holds, positive_symbols
from ioaware.analysis.formulas.printing import show

N, M = positive_symbols("n m")


def multiple(length: sympy.Expr, of: int) -> sympy.Expr:
    return Eq(Mod(length, of, evaluate=False), 0, evaluate=False)


EIGHT = Piecewise((4 * N, multiple(N, 8)), (32 * ceiling(N / 8), True), evaluate=False)
BOTH = Piecewise((2 * M * ceiling(N / 16), multiple(N, 16) & multiple(M, 4)), (N * M, True), evaluate=False)


def test_several_conditions_are_merged() -> None:
    found = cases(EIGHT + 2 * BOTH + ceiling(N / 3))
    assert show(found.where) == "m % 4 == 0 and n % 16 == 0"
    assert show(found.whole) == "m*n/4 + 4*n + ceil(n/3)"
    assert found.otherwise == EIGHT + 2 * BOTH + ceiling(N / 3)
    assert found.holds({"n": 32, "m": 8})
    for n, m in ((24, 8), (33, 8), (31, 8), (32, 9), (32, 7)):
        assert not found.holds({"n": n, "m": m})


def test_where_it_holds_the_formula_is_the_same() -> None:
    expr = EIGHT + 2 * BOTH + ceiling(N / 3)
    found = cases(expr)
    for n, m in product((16, 48, 160), (4, 20)):
        assert evaluate(found.whole, {"n": n, "m": m}) == evaluate(expr, {"n": n, "m": m})


def test_one_choice_keeps_its_other_case() -> None:
    found = cases(EIGHT)
    assert (show(found.where), found.otherwise) == ("n % 8 == 0", 32 * ceiling(N / 8))
    assert found.is_there(4 * N)
    assert found.is_there(32 * ceiling(N / 8))
    assert not found.is_there(8 * N)


def test_half_a_length_that_is_even_is_a_length_of_multiples() -> None:
    found = cases(Piecewise((N, multiple(N / 8, 2)), (M, True), evaluate=False))
    assert show(found.where) == "n % 16 == 0"


def test_a_product_of_lengths() -> None:
    assert drop_exact_roundings(ceiling(N * M / 8), {N: 2, M: 4}) == N * M / 8
    assert drop_exact_roundings(ceiling(N * M / 8), {N * M: 8}) == N * M / 8
    assert drop_exact_roundings(floor(N * M / 8 + sympy.Rational(1, 2)), {N * M: 8}) == floor(N * M / 8 + sympy.Rational(1, 2))
    assert drop_exact_roundings(ceiling(N / 16), {N: 8}) == ceiling(N / 16)


def test_another_choice_is_no_case_of_multiples() -> None:
    turned = Piecewise((N, sympy.Ge(Holds(N - M), 1)), (M, True), evaluate=False)
    assert cases(turned + EIGHT).where is None
    assert cases(turned).otherwise == M
    assert cases(N + M).where is None


def test_no_other_case_where_the_formula_has_none() -> None:
    found = cases(Piecewise((4 * N, multiple(N, 8)), evaluate=False))
    assert (found.whole, found.otherwise) == (4 * N, None)
