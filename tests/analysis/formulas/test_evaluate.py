"""Evaluation is exact for points and arrays, or is refused.

It is compared with Python's fractions.
"""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Max, Min, Mod, Piecewise, Rational, Sum, ceiling, floor

from ioaware.analysis.formulas.evaluate import compile_expression, evaluate
from ioaware.analysis.theory.counts import flash2

x, y, z = sympy.symbols("x y z", integer=True)
i = sympy.Symbol("i", integer=True)

RULES = (
    # formula, and the same in Python's exact fractions
    (ceiling(x / y) * z, lambda x, y, z: math.ceil(Fraction(x, y)) * z),
    (floor(x / (3 * y)) - z, lambda x, y, z: math.floor(Fraction(x, 3 * y)) - z),
    (ceiling(x / y + Rational(1, 3)), lambda x, y, z: math.ceil(Fraction(x, y) + Fraction(1, 3))),
    (floor((x - z) / 2) + x**3, lambda x, y, z: math.floor(Fraction(x - z, 2)) + x**3),
    (Max(x / y, z) * y * z, lambda x, y, z: max(Fraction(x, y), z) * y * z),
    (Min(x, y * z, 7), lambda x, y, z: min(x, y * z, 7)),
    (2 * Max(0, x / 2 - y / 2) + 2 * Min(x / 2, 0), lambda x, y, z: max(0, x - y) + min(x, 0)),
    (Mod(x, y) + Mod(-x, z), lambda x, y, z: x % y + -x % z),
    (x * (x + 1) / 2, lambda x, y, z: x * (x + 1) // 2),
    (Piecewise((x / y, sympy.Eq(Mod(x, y), 0)), (z, True)), lambda x, y, z: x // y if x % y == 0 else z),
    (
        Piecewise((1, (x < y) & (y < z)), (2, (x > z) | (x >= 9)), (3, True)),
        lambda x, y, z: 1 if x < y < z else 2 if x > z or x >= 9 else 3,
    ),
    (Sum(Min(i, z), (i, 0, x - 1)), lambda x, y, z: sum(min(i, z) for i in range(x))),
    (Sum(ceiling(i / y), (i, z, x)), lambda x, y, z: sum(-(-i // y) for i in range(z, x + 1))),
)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 20))
def test_one_point_equals_exact_fractions(a: int, b: int, c: int) -> None:
    for formula, expected in RULES:
        assert evaluate(formula, {"x": a, "y": b, "z": c}) == expected(a, b, c), formula


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule[0]))
def test_many_points_equal_one_point_each(rule: tuple[sympy.Expr, object]) -> None:
    dice = np.random.default_rng(0)
    points = {"x": dice.integers(1, 60, 300), "y": dice.integers(1, 20, 300), "z": dice.integers(1, 20, 300)}
    found = compile_expression(rule[0])(points)
    assert found.dtype == np.int64
    for at in range(300):
        assert found[at] == evaluate(rule[0], {name: int(column[at]) for name, column in points.items()})


def test_floats_would_be_wrong_here() -> None:
    """Doubles lose 2^53 + 1 over 1 and some ceilings.

    A lost ceiling is that of a quotient slightly above an integer.
    """
    assert evaluate(ceiling(x / y), {"x": 2**62 + 1, "y": 2**31}) == 2**31 + 1
    assert float(2**62 + 1) / 2**31 == 2.0**31
    large = np.array([2**53 + 1, 3])
    assert list(compile_expression(ceiling(x / 2) * 2)({"x": large})) == [2**53 + 2, 4]


def test_arrays_that_would_overflow_are_widened() -> None:
    found = compile_expression(x**3 - y)({"x": np.array([2**40, 2]), "y": 2**70})
    assert list(found) == [2**120 - 2**70, 8 - 2**70]
    fits = compile_expression(floor(x**2 * y / 2**70))({"x": np.array([2**40, 2]), "y": np.array([3, 2**62])})
    assert list(fits) == [3 * 2**10, 0]
    assert list(compile_expression(Max(x, y))({"x": np.array([1, 5]), "y": 2**63})) == [2**63, 2**63]


def test_sums_split_into_chunks_and_may_be_empty() -> None:
    total = Sum(i, (i, 1, x))
    assert evaluate(total, {"x": 10**6}) == 10**6 * (10**6 + 1) // 2
    assert evaluate(total, {"x": 0}) == evaluate(total, {"x": -5}) == 0
    assert list(compile_expression(total)({"x": np.array([0, 3, 700_000, 0, 1])})) == [0, 6, 700_000 * 700_001 // 2, 0, 1]
    assert evaluate(Sum(2**40 * i, (i, 0, 2**19)), {}) == 2**40 * 2**19 * (2**19 + 1) // 2
    nested = Sum(sympy.Symbol("j") * i, (sympy.Symbol("j"), 0, i), (i, 0, x))
    assert evaluate(nested, {"x": 6}) == sum(i * j for i in range(7) for j in range(i + 1))


def test_shapes_broadcast() -> None:
    found = compile_expression(x * y)({"x": np.arange(3)[:, None], "y": np.arange(4)[None, :]})
    assert found.shape == (3, 4)
    assert found[2, 3] == 6
    constant = compile_expression(sympy.Integer(5))({"x": np.arange(3)})
    assert list(constant) == [5, 5, 5]


def test_a_branch_that_does_not_apply_is_not_evaluated() -> None:
    guarded = Piecewise((0, sympy.Eq(y, 0)), (floor(x / y), True))
    assert evaluate(guarded, {"x": 7, "y": 0}) == 0
    assert list(compile_expression(guarded)({"x": np.array([7, 7]), "y": np.array([0, 2])})) == [0, 3]


@pytest.mark.parametrize(
    ("formula", "values", "error"),
    [
        (x / 2, {"x": 3}, ValueError),
        (x + y, {"x": 3}, ValueError),
        (Piecewise((x, x > 5)), {"x": 3}, ValueError),
        (floor(x / y), {"x": 3, "y": 0}, ZeroDivisionError),
        (sympy.sqrt(x), {"x": 4}, TypeError),
        (sympy.exp(x), {"x": 1}, TypeError),
        (x**y, {"x": 2, "y": 2}, TypeError),
        (x + sympy.Float(0.5), {"x": 1}, TypeError),
        (x, {"x": 1.0}, TypeError),
        (x, {"x": True}, TypeError),
    ],
    ids=str,
)
def test_inexact_evaluations_are_refused(formula: sympy.Expr, values: dict[str, int], error: type[Exception]) -> None:
    with pytest.raises(error):
        evaluate(formula, values)


def test_refuses_arrays_of_floats_and_fractions() -> None:
    with pytest.raises(TypeError):
        compile_expression(x)({"x": np.array([1.0])})
    with pytest.raises(ValueError, match="not an integer"):
        compile_expression(x / 2)({"x": np.array([2, 3])})
    with pytest.raises(ZeroDivisionError):
        compile_expression(floor(1 / x))({"x": np.array([2, 0])})


def test_a_hundred_thousand_points_in_under_a_second() -> None:
    dice, count = np.random.default_rng(0), 100_000
    n = dice.integers(1, 2**20, count)
    points = {"N": n, "N_k": n, "d": dice.integers(16, 257, count), "B_r": dice.integers(1, 1025, count), "e": 2}
    run = compile_expression(flash2.counts(False).reads.bytes)
    start = time.perf_counter()
    found = run(points)
    assert time.perf_counter() - start < 1
    assert found[17] == 2 * int(n[17]) * int(points["d"][17]) * (1 + 2 * -(-int(n[17]) // int(points["B_r"][17])))
