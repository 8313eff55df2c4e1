"""Counters that were counted a second time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioaware.result import Launch, Result, Traffic
from ioaware.simulation.accuracy import PredictedLaunch, Prediction, point_key
from ioaware.simulation.accuracy_record.counter_comparison import compare
from ioaware.simulation.accuracy_record.recorded_accuracy import predicted_again
from ioaware.simulation.accuracy_record.repeated_counts import counted_again, read_repeated
from ioaware.simulation.predictions import measured_points

MB = 1_000_000
LAUNCH = Launch("scores", requested=Traffic(400 * MB, 0), hbm=Traffic(100 * MB, 40 * MB), grid=(1,), origin="triton")
POINT = Result("measure", "standard", {"seq_len": 64}, hbm=Traffic(100 * MB, 40 * MB), exact=False, launches=(LAUNCH,))
PREDICTED = PredictedLaunch("scores", 400 * MB, 0, 80 * MB, 40 * MB, (80 * MB, 120 * MB), (40 * MB, 40 * MB), fills_l2=False)


def explained(second: int | None) -> str:
    """Return the cause of the outlier of `POINT`, counted to read so much again."""
    again = [] if second is None else [replace(LAUNCH, hbm=Traffic(second, 40 * MB))]
    key = False, point_key(POINT.target, POINT.params)
    found = compare([POINT], [Prediction(POINT.target, POINT.params, (PREDICTED,))], repeated={key: again})
    (outlier,) = found.outliers
    assert outlier.counted_again == second
    return outlier.explanation


def test_a_counter_that_differs_from_itself_explains_an_outlier() -> None:
    assert explained(60 * MB) == "the counter deviates by itself: 0.60 of it in a second run"


@pytest.mark.parametrize("second", [None, 98 * MB])
def test_one_that_does_not_leaves_the_cause_as_it_is(second: int | None) -> None:
    assert "by itself" not in explained(second)


def test_only_hbm_bytes_of_the_same_kernel_are_taken() -> None:
    assert counted_again([LAUNCH], 0, "scores", "HBM reads") == 100 * MB
    assert counted_again([LAUNCH], 0, "scores", "HBM writes") == 40 * MB
    assert counted_again([LAUNCH], 0, "scores", "requested writes") is None
    assert counted_again([LAUNCH], 0, "output", "HBM reads") is None
    assert counted_again([LAUNCH], 1, "scores", "HBM reads") is None
    assert counted_again([replace(LAUNCH, origin="torch")], 0, "scores", "HBM reads") is None


def test_recorded_points_are_counted_again() -> None:
    """Of HBM reads predicted worst, every fifth differs from itself by over 5 %."""
    assert len(read_repeated()) == 110
    found = [one for one in predicted_again(measured_points()).comparisons if one.place == "HBM reads" and one.counted_again]
    assert len(found) > 140
    assert 20 <= sum(one.deviates for one in found) <= 30
