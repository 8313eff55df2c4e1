"""Neighbouring programs share an L2 partition.

Those of the first wave do, and later ones where programs end in order.
"""

from __future__ import annotations

import itertools
import json
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from ioaware.simulation.schedule import Schedule, schedule
from ioaware.simulation.waves.placement import with_sides

SMS = 132


def sides(durations: ArrayLike, slots: int) -> list[int]:
    """Return the partition of each program as 1 or 2."""
    found: NDArray[np.float64] = np.asarray(durations, dtype=np.float64)
    placed = with_sides(schedule(found, slots), found, slots, SMS)
    return [int(one) for one in placed.partitions(np.arange(found.size))]


def share_with_next(found: list[int]) -> float:
    """Return the share of programs whose successor has the same partition."""
    return sum(one == other for one, other in itertools.pairwise(found)) / (len(found) - 1)


@pytest.mark.parametrize("count", [64, 132, 528])
def test_the_first_wave_is_in_runs_and_divided_evenly(count: int) -> None:
    found = sides(np.ones(count), count)
    assert abs(found.count(1) - count / 2) <= 0.02 * count
    assert share_with_next(found) > 0.9


def test_later_programs_that_end_at_one_time_are_placed_by_chance() -> None:
    assert abs(share_with_next(sides(np.ones(4 * SMS), SMS)[SMS:]) - 0.5) < 0.1


@pytest.mark.parametrize(("per_sm", "least", "most"), [(1, 0.94, 1.0), (4, 0.75, 0.95), (16, 0.45, 0.7)])
def test_programs_that_end_one_after_the_other_keep_the_order_the_better_the_fewer_an_sm_runs(
    per_sm: int, least: float, most: float
) -> None:
    found = sides(np.arange(1.0, 6 * SMS * per_sm), SMS * per_sm)[SMS * per_sm :]
    assert least < share_with_next(found) < most


def test_a_launch_without_programs_has_no_sides() -> None:
    nothing = np.empty(0)
    empty = Schedule(nothing, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    assert with_sides(empty, nothing, 4, SMS).sides is None


def recorded() -> dict[str, Any]:
    """Return what was measured on an H200."""
    return json.loads((files("ioaware") / "recorded" / "l2" / "h200-partitions.json").read_text())


def measured_sides(probe: dict[str, Any]) -> list[list[int]]:
    """Return the partition of each SM after each reader.

    It is 1 or 2; that of the reader is 1.
    """
    return [[1 if one < (min(each) + max(each)) / 2 else 2 for one in each] for each in probe["cycles"].values()]


def test_every_reader_finds_the_same_two_partitions_of_66_sms() -> None:
    first, *others = measured_sides(recorded())
    assert first.count(1) == SMS // 2
    assert all(one in (first, [3 - side for side in first]) for one in others)


def test_recorded_launches_place_neighbours_as_the_model_does() -> None:
    """Five programs of a small grid may differ, or a fiftieth of a larger one."""
    probe = recorded()
    side = measured_sides(probe)[0]
    for one in probe["orders"]:
        found: list[int] = [side[sm] for sm in one["sm"]]
        if len(found) <= SMS:
            assert abs(found.count(1) - len(found) / 2) <= max(5, 0.02 * len(found))
            assert abs(share_with_next(found) - share_with_next(sides(np.ones(len(found)), SMS))) < 0.15
        elif not one["growth"]:
            later = found[SMS * 64 // one["warps"] :]
            assert abs(share_with_next(later) - 0.5) < 0.17
