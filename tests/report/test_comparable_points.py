"""Comparable points: values per head and the matching prediction.

The conditions for drawing are tested too.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ioaware.report.attention.text_rows import problems
from ioaware.report.comparable_points import Points, point_of
from ioaware.result import Check, Result, Traffic

Make = Callable[..., Result]


def test_values_are_per_head(result_of: Make) -> None:
    one, many = point_of(result_of("flash2", 512)), point_of(result_of("flash2", 512, heads=8))
    assert one is not None
    assert many is not None
    assert one.requested_bytes == many.requested_bytes
    assert one.key == many.key


def test_a_measurement_is_compared_with_the_prediction_of_its_own_blocks(result_of: Make) -> None:
    points = Points(
        [
            result_of("flash2", 512, block=64),
            result_of("flash2", 512, block=32),
            result_of("flash2", 512, block=32, source="trace", heads=4),
        ]
    )
    (traced,) = points.of("trace")
    assert points.requested_ratio(traced) == 1.0


def test_without_a_prediction_there_is_no_ratio(result_of: Make) -> None:
    points = Points([result_of("flash2", 512, source="trace")])
    assert points.requested_ratio(points.of("trace")[0]) is None


@pytest.mark.parametrize(
    ("changes", "standing"),
    [
        ({}, "shown"),
        ({"check": None}, "listed"),
        ({"check": Check(float("nan"), 1e-3)}, "listed"),
        ({"check": Check(2e-3, 1e-3)}, "listed"),
        ({"status": "unstable"}, "unstable"),
        ({"status": "impossible"}, "listed"),
        ({"status": "failed"}, "listed"),
    ],
)
def test_unreliable_points_are_listed_and_not_drawn(result_of: Make, changes: dict[str, object], standing: str) -> None:
    result = result_of("flash2", 512, source="measure", **changes)
    points = Points([result])
    assert points.all[0].standing == standing
    listed = [problem.status for problem in problems([result], points)]
    assert bool(listed) == (standing != "shown")


def test_m_sets_both_blocks_as_in_the_case(result_of: Make) -> None:
    result = result_of("flash1", 512)
    sized = Result("predict", "flash1", {**result.params, "sram_elements": 4 * 64 * 48})
    point = point_of(sized)
    assert point is not None
    assert (point.config.block_m, point.config.block_n, point.config.outer_block) == (48, 48, 48)
    assert point.config.sram_elements == 4 * 64 * 48


def test_a_curve_takes_the_blocks_measured_at_most_lengths(result_of: Make) -> None:
    rare = [result_of("flash2", 512, block=32, source="measure")]
    common = [result_of("flash2", n, block=128, source="measure") for n in (512, 1024)]
    predicted = [result_of("flash2", 2**power, block=64) for power in range(5, 14)]
    (part,) = Points([*predicted, *rare, *common]).slices
    assert [config.block_m for config in part.configs] == [128]


def test_other_targets_and_unusable_parameters_are_no_points() -> None:
    mine = Result("measure", "mine.py:kernel", {"n": 5}, requested=Traffic(1, 2))
    broken = Result("measure", "flash2", {"seq_len": -5})
    points = Points([mine, broken])
    assert points.all == []
    assert points.others == [mine, broken]


def test_the_prediction_with_fewest_heads_is_drawn_at_each_length(result_of: Make) -> None:
    points = Points([result_of("flash2", 512, heads=heads) for heads in (8, 1, 4)])
    config = points.all[0].config
    assert [point.num_heads for point in points.along(config, "predict")] == [1]
