"""What differs between two runs of one version is no growth of time.

The simulations give each run of a row a shift of its own, beside the noise of its rounds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from ioaware.gate.measured.comparison import compare_runs, measured_results
from ioaware.gate.measured.measured_row import time_interval
from ioaware.gate.measured.process_spread import ENOUGH_ROWS, UNKNOWN_SPREAD, least_change
from ioaware.gate.measured.rank_intervals import Interval
from ioaware.gate.verdict import Verdict
from ioaware.measurement.timing import summarize
from ioaware.result import Result
from tests.support import ROOT
from tests.support.measured_runs import gaussian, point, times

ROWS = 50
RUNS = [pytest.param(20, id="few"), pytest.param(300, marks=pytest.mark.slow, id="many")]
Shift = Callable[[random.Random], float]


def recorded(name: str) -> list[Result]:
    return measured_results(ROOT / "ioaware" / "recorded" / "benchmarks" / f"h200-{name}.json")


def recorded_shifts() -> list[float]:
    """Return how far each row of the recorded suite differs between its two runs."""
    pairs = zip(recorded("first"), recorded("second"), strict=True)
    return [found.ratio - 1 for old, new in pairs if (found := time_interval(old, new, 0.01 / ROWS))]


def laplace(draw: random.Random) -> float:
    return draw.choice((-1, 1)) * draw.expovariate(1 / 0.003)


def of_records(shifts: list[float]) -> Shift:
    """Draw a run's part of a difference, of which two make one."""
    return lambda draw: draw.choice((-1, 1)) * draw.choice(shifts) / 2**0.5


SHIFTS: dict[str, Shift] = {
    "none": lambda _: 0.0,
    "normal": lambda draw: draw.gauss(0, 0.005),
    "laplace": laplace,
    "recorded": of_records(recorded_shifts()),
}


def shifted(draw: random.Random, shift: Shift, rounds: int) -> list[Result]:
    return [point(row, times(draw, gaussian(0.0015), rounds=rounds, slower=1 + shift(draw))) for row in range(ROWS)]


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("name", SHIFTS)
def test_differences_between_runs_are_no_growth(name: str, runs: int) -> None:
    """At most 1 % of the runs of 50 rows alarm.

    This is so with and without a second run of the old version.
    """
    draw, repeated, single = random.Random(17), 0, 0
    for _ in range(runs):
        old, new, again = (shifted(draw, SHIFTS[name], 12) for _ in range(3))
        repeated += compare_runs(old, new, again).verdict is Verdict.WORSE
        single += compare_runs(old, new).verdict is Verdict.WORSE
    assert max(repeated, single) <= runs / 100


@pytest.mark.parametrize("runs", RUNS)
def test_rounds_of_a_real_gpu_with_recorded_differences(runs: int) -> None:
    """Rounds and differences are those of the recorded suite of 36 cases."""
    draw, alarms, results, shift = random.Random(18), 0, recorded("first"), SHIFTS["recorded"]

    def drawn() -> list[Result]:
        found: list[Result] = []
        for one in results:
            assert one.timing
            slower = 1 + shift(draw)
            rounds = [slower * time for time in draw.choices(one.timing.rounds_ns, k=30)]
            found.append(replace(one, timing=summarize(rounds)))
        return found

    for _ in range(runs):
        old, new, again = drawn(), drawn(), drawn()
        alarms += compare_runs(old, new, again).verdict is Verdict.WORSE
    assert alarms <= runs / 100


def test_the_recorded_suite_compared_with_itself_has_no_alarm() -> None:
    first, second = recorded("first"), recorded("second")
    for old, new in ((first, second), (second, first)):
        found = compare_runs(old, new)
        assert (len(found.points), found.verdict) == (36, Verdict.SAME)
        assert {str(one.time_verdict) for one in found.points} == {"SAME", "UNSURE"}


def repeat(ratio: float, half_width: float = 0.001) -> Interval:
    return Interval(ratio, ratio - half_width, ratio + half_width)


def test_the_spread_is_that_of_the_precise_rows() -> None:
    rows = [repeat(1.002)] * (ENOUGH_ROWS - 1)
    assert least_change([*rows, repeat(0.988)]) == pytest.approx([0.024] * ENOUGH_ROWS)
    assert least_change([*rows, repeat(1.0), repeat(1.2, 0.3)]) == pytest.approx([0.01] * ENOUGH_ROWS + [0.4])
    assert least_change([*rows, repeat(1.0), None])[-1] == UNKNOWN_SPREAD


def test_few_rows_show_no_spread() -> None:
    assert least_change([None] * 30) == [UNKNOWN_SPREAD] * 30
    assert least_change([repeat(1.0)] * (ENOUGH_ROWS - 1)) == [UNKNOWN_SPREAD] * (ENOUGH_ROWS - 1)
    assert least_change([repeat(1.0), repeat(1.1)]) == pytest.approx([UNKNOWN_SPREAD, 0.2])
