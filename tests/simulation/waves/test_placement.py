"""Neighbouring programs share an L2 partition.

Those of the first wave do, and later ones where programs end in order.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike

from ioaware.simulation.schedule import Schedule, schedule
from ioaware.simulation.waves.placement import with_sides

SMS = 132


def sides(durations: ArrayLike, slots: int) -> list[int]:
    """Return the partition of each program as 1 or 2."""
    found = np.asarray(durations, dtype=np.float64)
    placed = with_sides(schedule(found, slots), found, slots, SMS)
    return placed.partitions(np.arange(found.size)).tolist()


def share_with_next(found: list[int]) -> float:
    """Return the share of programs whose successor has the same partition."""
    return float(np.mean(np.array(found[1:]) == np.array(found[:-1])))


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
