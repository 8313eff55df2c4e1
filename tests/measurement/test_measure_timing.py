"""Repetitions of a timing and their summary, with an injected clock."""

import itertools
import statistics
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.measurement.timing import MAXIMUM_COUNT, median_error, repeat, summarize


class Clock:
    """A clock that only repetitions advance."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def time_work(seconds: float, nanoseconds: list[float], budget_s: float = 1.0) -> tuple[int, int]:
    """Return the numbers of repetitions and of checks.

    A repetition of the work lasts `seconds` and reports the next of `nanoseconds`.
    """
    clock, checks, values = Clock(), [], itertools.cycle(nanoseconds)

    def once() -> float:
        clock.now += seconds
        return next(values)

    timing = repeat(once, budget_s=budget_s, clock=clock, every=lambda: checks.append(clock.now))
    return timing.count, len(checks)


def test_a_steady_work_stops_after_a_fifth_of_a_second() -> None:
    count, checks = time_work(0.001, [1000.0])
    assert count == pytest.approx(200, abs=1)
    assert checks == 2


def test_a_noisy_work_uses_its_budget() -> None:
    count, checks = time_work(0.01, [1000.0, 3000.0, 500.0])
    assert count == pytest.approx(100, abs=1)
    assert checks in (9, 10)


def test_a_slow_work_runs_five_times() -> None:
    assert time_work(10.0, [1e10])[0] == 5


def test_a_tiny_work_is_bounded() -> None:
    assert time_work(1e-7, [100.0, 300.0])[0] == MAXIMUM_COUNT


def test_a_time_of_zero_never_converges() -> None:
    assert time_work(0.01, [0.0])[0] == pytest.approx(100, abs=1)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.floats(1, 1e9), min_size=2, max_size=50))
def test_the_summary_has_ordered_quantiles_of_the_data(times: list[float]) -> None:
    timing = summarize(times)
    assert timing.min_ns == min(times)
    assert timing.median_ns == pytest.approx(statistics.median(times))
    assert timing.min_ns <= timing.p25_ns <= timing.median_ns <= timing.p75_ns <= max(times)
    assert timing.count == len(times)
    assert median_error(times) >= 0


def test_an_outlier_does_not_move_the_median() -> None:
    assert summarize([100.0] * 9 + [10_000.0]).median_ns == 100.0


def test_the_error_of_the_median_halves_with_four_times_the_repetitions() -> None:
    """1.2533 standard deviations over the root of the count.

    This is for a normal distribution.
    """
    normal = [100 + NormalDist().inv_cdf((index + 0.5) / 400) for index in range(400)]
    assert median_error(normal) == pytest.approx(1.2533 / 20 / 100, rel=0.02)
    assert median_error(normal * 4) == pytest.approx(median_error(normal) / 2, rel=0.01)
