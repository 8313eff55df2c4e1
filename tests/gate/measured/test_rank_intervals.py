"""Rank intervals: the distribution and the coverage.

The distribution is checked against enumeration, the coverage by simulation.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import pytest

from ioaware.gate.measured.rank_intervals import cut_at, interval, pair_counts


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (3, 3), (4, 5)])
def test_the_distribution_equals_that_of_all_orders(m: int, n: int) -> None:
    counted: Counter[int] = Counter()
    for first in itertools.combinations(range(m + n), m):
        second = [place for place in range(m + n) if place not in first]
        counted[sum(a > b for a in first for b in second)] += 1
    assert pair_counts(m, n) == tuple(counted[u] for u in range(m * n + 1))
    assert sum(pair_counts(m, n)) == math.comb(m + n, m)


def test_the_cut_is_the_largest_at_its_level() -> None:
    for m, n, level in ((9, 9, 2e-4), (5, 5, 0.05), (9, 32, 1e-3)):
        cut = cut_at(m, n, level)
        assert cut is not None
        total = math.comb(m + n, m)
        assert sum(pair_counts(m, n)[: cut + 1]) <= level * total < sum(pair_counts(m, n)[: cut + 2])


def test_too_few_rounds_have_no_interval() -> None:
    assert cut_at(5, 5, 2e-4) is None
    assert interval([1.0] * 5, [2.0] * 5, 2e-4) is None
    for level in (0.5, 1.0):  # any alarm is allowed at 1
        assert interval([], [1.0], level) is None
        assert interval([1.0], [], level) is None
        assert interval([], [], level) is None
    assert interval([0.0] * 9, [1.0] * 9, 2e-4) is None
    assert interval([float("nan")] * 9, [1.0] * 9, 2e-4) is None


def test_swapping_the_sides_inverts_the_interval() -> None:
    draw = random.Random(1)
    old, new = ([draw.uniform(1, 2) for _ in range(9)] for _ in range(2))
    one, other = interval(old, new, 0.01), interval(new, old, 0.01)
    assert one is not None
    assert other is not None
    assert one.low == pytest.approx(1 / other.high)
    assert one.ratio == pytest.approx(1 / other.ratio)


@pytest.mark.parametrize("trials", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_95_percent_interval_covers_the_ratio(trials: int) -> None:
    draw = random.Random(2)
    covered = 0
    for _ in range(trials):
        old, new = ([draw.gauss(1, 0.01) * factor for _ in range(9)] for factor in (1, 1.03))
        found = interval(old, new, 0.025)
        assert found
        covered += found.low <= 1.03 <= found.high
    assert 0.93 <= covered / trials <= 0.98  # the level is that of whole pairs: a little more than 95 %


def test_the_estimate_is_the_median_of_all_ratios() -> None:
    odd, even = interval([1.0], [2.0, 3.0, 7.0], 0.5), interval([1.0], [2.0, 3.0, 12.0, 20.0], 0.5)
    assert odd is not None
    assert even is not None
    assert (odd.ratio, even.ratio) == (3.0, pytest.approx(6.0))  # of two in the middle the geometric mean


def test_every_pair_may_be_cut_off_where_any_alarm_is_allowed() -> None:
    assert cut_at(2, 2, 1.0) == 4
