"""Interleaving and statistics of a race.

The order varies in each round, and clock drift cancels in ratios.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from ioaware.bench.interleaving import MAX_CALLS, calls_in_sample, order, race
from ioaware.bench.statistics import geometric_mean, paired_ratio, spread

NAMES = ["a", "b", "c", "d"]


def test_a_round_has_each_back_end_once() -> None:
    assert all(sorted(order(NAMES, number)) == NAMES for number in range(12))


def test_positions_and_predecessors_vary_between_rounds() -> None:
    rounds = [order(NAMES, number) for number in range(8)]
    for name in NAMES:
        assert len({one.index(name) for one in rounds}) >= 3
    before = {pair for one in rounds for pair in itertools.pairwise(one)}
    assert all((b, a) in before for a, b in before)


class DriftingClock:
    """A GPU that gets slower with every sample, and logs the calls."""

    def __init__(self, costs: dict[str, float], drift: float = 1.0) -> None:
        self.costs, self.drift, self.pace = costs, drift, 1.0
        self.log: list[str] = []

    def queue(self, name: str) -> Callable[[], float]:
        self.log.append(name)
        self.pace *= self.drift
        time_ns = self.costs[name] * self.pace
        assert self.log.count("synchronize") * (len(self.costs) + 2) <= len(self.log)
        return lambda: time_ns

    def snapshot(self) -> None:
        self.log.append("snapshot")

    def synchronize(self) -> None:
        self.log.append("synchronize")


def test_clocks_are_read_while_a_round_still_runs() -> None:
    clock = DriftingClock({"a": 1.0, "b": 2.0})
    assert race(["a", "b"], 2, clock) == {"a": [1.0, 1.0], "b": [2.0, 2.0]}
    assert clock.log == ["a", "b", "snapshot", "synchronize", "b", "a", "snapshot", "synchronize"]


def test_a_drift_of_the_clock_does_not_become_a_ratio() -> None:
    """30 % slower over the run.

    A constant order would show 1.5 % between equal back ends.
    """
    clock = DriftingClock({"a": 100.0, "b": 100.0, "c": 100.0}, 1.3 ** (1 / 24))
    times = race(["a", "b", "c"], 8, clock)
    assert paired_ratio(times["b"], times["a"]).median == pytest.approx(1.0, abs=0.005)
    assert spread(times["a"]).relative > 0.05


def test_samples_are_long_but_not_endless() -> None:
    assert calls_in_sample(1e6) == 4
    assert calls_in_sample(3e7) == 1
    assert calls_in_sample(10.0) == MAX_CALLS
    assert calls_in_sample(0.0) == MAX_CALLS


def test_statistics() -> None:
    assert spread([5.0]).relative == 0
    assert (spread([1.0, 2.0, 3.0, 4.0, 100.0]).median, spread([1.0, 2.0, 3.0, 4.0, 100.0]).p75) == (3.0, 4.0)
    assert paired_ratio([2.0, 8.0, 6.0], [1.0, 2.0, 3.0]).median == 2.0
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="argument"):
        paired_ratio([1.0], [1.0, 2.0])
