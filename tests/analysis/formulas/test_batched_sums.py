"""Sums at many points equal sums at one point each, and share their terms."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Max, Min, Mod, Piecewise, Sum, ceiling, floor

from ioaware.analysis.formulas import batched_sums
from ioaware.analysis.formulas.evaluate import compile_expression, evaluate
from ioaware.analysis.formulas.functions import Holds
from ioaware.analysis.formulas.shift_invariance import shift

i, j, k, n, m = sympy.symbols("i j k n m", integer=True)
LEFT = Max(0, Min(16, n - 16 * i))
SHIFT_INVARIANT = (
    Sum(LEFT**2, (i, 0, ceiling(n / 16) - 1)),
    Sum(LEFT * m, (i, 1, ceiling(n / 16) + 3)),
    Sum(Holds(n - 16 * i - j - 1) * j, (j, 0, 7), (i, 0, ceiling(n / 16) - 1)),
    Sum(Max(Min(ceiling(n / 4) - 2 * i, 4), m) * Mod(n + 32 * i, 5), (i, 0, floor(n / 8))),
    Sum(Min(n - 8 * i, 3) * Sum(Min(k, n - 8 * i), (k, 0, m)), (i, 0, floor(n / 8))),
)
OTHERS = (
    Sum(Holds(m - floor(i / 3)) * i, (i, 0, n)),
    Sum(floor(i * n / m) - i, (i, 0, Min(n, 9))),
    Sum(Min(n - 3 * i, i), (i, 0, ceiling(n / 3))),
    Sum(Min(i, j) * n, (i, j, n), (j, 0, 8)),
    Sum(Piecewise((floor(n / (i - 3)), i > 3), (i, True)), (i, 0, n)),
    Sum(n + m, (i, 0, n)),
)


@pytest.mark.parametrize("formula", [*SHIFT_INVARIANT, *OTHERS], ids=str)
@pytest.mark.parametrize("largest", [30, 900])
def test_many_points_equal_one_point_each(formula: Any, largest: int) -> None:
    dice = np.random.default_rng(largest)
    points = {"n": dice.integers(-5, largest, 400), "m": dice.integers(1, 6, 400)}
    found = compile_expression(formula)(points)
    for at in range(0, 400, 7):
        assert found[at] == evaluate(formula, {name: int(column[at]) for name, column in points.items()})


def naive(expr: Any, values: dict[Any, int]) -> int:
    """Evaluate by sympy's own substitution, one term at a time."""
    body, *limits = expr.args
    if not limits:
        return int(expr)
    *inner, (index, low, high) = limits
    low, high = (int(end.subs(values)) for end in (low, high))
    terms = ((Sum(body, *inner) if inner else body).subs(index, at) for at in range(low, high + 1))
    return sum(naive(term, values) if isinstance(term, Sum) else int(term.subs(values).doit()) for term in terms)


@pytest.mark.parametrize("formula", [*SHIFT_INVARIANT, *OTHERS], ids=str)
def test_one_point_equals_sympys_substitution(formula: Any) -> None:
    for length, other in ((37, 2), (8, 5)):
        assert evaluate(formula, {"n": length, "m": other}) == naive(formula, {n: length, m: other})


@pytest.mark.parametrize("formula", SHIFT_INVARIANT, ids=str)
def test_lengths_share_their_terms(formula: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 9599 lengths has up to 600 terms.

    Together they compute fewer than ten terms a length.
    """
    computed = list[int]()
    chunks = batched_sums._chunks

    def counted(counts: Any) -> Any:
        computed.append(int(counts.sum()))
        return chunks(counts)

    monkeypatch.setattr(batched_sums, "_chunks", counted)
    lengths = np.arange(1, 9600)
    compile_expression(formula)({"n": lengths, "m": 3})
    assert 0 < max(computed) < 10 * len(lengths)


def test_shifts_of_single_terms() -> None:
    assert shift(LEFT, "i") == ("n", 16)
    assert shift(ceiling(n / 16) - 4 * i + floor((n - 64 * i) / 8), "i") == ("n", 64)
    assert shift(LEFT * i, "i") is None
    assert shift(LEFT * n, "i") is None
    assert shift(floor((n - 16 * i) / m) + floor(n / 32) - floor(i / 2), "i") is None
    assert shift(floor(n / (n - 16 * i)), "i") is None
    assert shift(Mod(n - 8 * i, 16) + Mod(n, 16), "i") is None
    assert [shift(Min(i, other) + ceiling((n - 16 * i) / 8), "i") for other in (k, sympy.Symbol("a"))] == [None, None]
    assert shift(Sum(i, (i, 0, n - 8 * i)), "i") is None


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.data())
def test_a_found_shift_keeps_the_value(data: st.DataObject) -> None:
    """Random terms at random points: one step of the index and of its symbol together."""
    number = st.integers(-9, 9)
    leaf = st.sampled_from([i, n, n - 8 * i, n - 8 * i + 3, m]) | number.map(sympy.Integer)
    term = data.draw(
        st.recursive(
            leaf,
            lambda inner: st.one_of(
                st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
                st.tuples(inner, number).map(prod),
                st.tuples(inner, inner).map(lambda pair: Max(*pair)),
                inner.map(lambda x: floor(x / 4)),
                inner.map(Holds),
                inner.map(lambda x: Mod(x, 4)),
            ),
            max_leaves=6,
        )
    )
    term = sympy.sympify(term) + floor((n - 8 * i) / 2)
    found = shift(term, "i")
    if found is None:
        return
    symbol, step = found
    at = data.draw(st.fixed_dictionaries({"i": number, "n": st.integers(-99, 99), "m": number}))
    moved = {**at, "i": at["i"] + 1, symbol: at[symbol] + step}
    assert evaluate(term, at) == evaluate(term, moved)


def test_lengths_between_the_points_are_not_evaluated() -> None:
    """A table from 33 to 47 would contain n = 40, where a term divides by zero.

    No point is 40.
    """
    formula = Sum(floor(100 / (n - 40 * i)), (i, 0, 9))
    points = np.array([1, 2, 3, 1001, 1003] * 200)
    expected = {int(at): sum(100 // (int(at) - 40 * i) for i in range(10)) for at in set(points)}
    assert list(compile_expression(formula)({"n": points})) == [expected[int(at)] for at in points]
