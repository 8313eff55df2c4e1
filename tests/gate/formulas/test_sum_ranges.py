"""The order of a sum's ranges, as written now and in earlier snapshots."""

from __future__ import annotations

import pytest

from ioaware.gate.formulas.formula_names import read_pair
from ioaware.gate.formulas.formula_order import compare, proven_equal
from ioaware.gate.verdict import Verdict

NOW_AND_BEFORE = [
    (
        "sum(min(n - i, j) for j in range(m) for i in range(n))",
        "sum(min(n - i, j) for i in range(n) for j in range(m))",
    ),
    (
        "4 + sum([n >= i + 1]*sum(min(k, i) for k in range(i)) for j in range(m) for i in range(j, n))",
        "4 + sum([n >= i + 1]*sum(min(k, i) for k in range(i)) for i in range(j, n) for j in range(m))",
    ),
]


@pytest.mark.parametrize(("now", "before"), NOW_AND_BEFORE)
def test_a_snapshot_of_the_other_order_is_the_same(now: str, before: str) -> None:
    pair = read_pair(before, now, ["n", "m"])
    assert not isinstance(pair, str), pair
    assert proven_equal(*pair)
    points = [{"n": 5, "m": 3}, {"n": 3, "m": 7}]
    assert compare(*pair, points).verdict is Verdict.SAME


def test_ranges_that_depend_on_each_other_keep_their_nesting() -> None:
    pair = read_pair("sum(i for j in range(m) for i in range(j))", "sum(j for i in range(m) for j in range(i))", ["m"])
    assert not isinstance(pair, str), pair
    assert {value for _, *values in compare(*pair, [{"m": 6}]).values for value in values} == {20}


def test_ranges_in_a_circle_are_refused() -> None:
    assert "needs another one's index" in str(read_pair("sum(i for i in range(j) for j in range(i))", "m", ["m"]))
