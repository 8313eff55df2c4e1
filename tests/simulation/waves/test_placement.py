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
from ioaware.simulation.timeline import Executions
from ioaware.simulation.waves.placement import PACES, placed_by_clocks, placed_by_ends, waits, with_sides

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


def recorded(name: str = "l2/h200-partitions.json") -> dict[str, Any]:
    """Return what was measured on an H200."""
    return json.loads((files("ioaware") / "recorded" / name).read_text())


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


def test_programs_whose_waits_deviate_keep_their_slots_and_their_work() -> None:
    """A slot has one program at a time, which ends when all of its work is done."""
    durations = np.full(400, 50.0)
    found = placed_by_ends(durations, np.full(400, 4.0), 12)
    assert (found.slot[:12] == np.arange(12)).all()
    assert (found.start[:12] == 0).all()
    for slot in range(12):
        mine = np.flatnonzero(found.slot == slot)
        ends = found.times(mine, durations[mine])
        assert found.times(mine, np.zeros(mine.size)) == pytest.approx(found.start[mine])
        assert found.start[mine][1:] == pytest.approx(ends[:-1], abs=0.01)
        assert (np.diff(found.start[mine]) >= 25).all()


def test_programs_deviate_less_the_more_often_they_wait() -> None:
    def deviation(often: float) -> float:
        found = placed_by_ends(np.full(4000, 1.0), np.full(4000, often), 40)
        return float(np.std(found.times(np.arange(4000), np.ones(4000)) - found.start))

    assert deviation(1.0) == pytest.approx(0.26, abs=0.02)  # some are cut at 0.5 and 1.5
    assert deviation(100.0) == pytest.approx(0.027, abs=0.002)


def test_programs_that_all_run_at_once_advance_evenly() -> None:
    found = placed_by_ends(np.full(12, 5.0), np.ones(12), 12)
    assert found.times(np.arange(12), np.full(12, 2.0)) == pytest.approx(np.full(12, 2.0))


def test_a_program_waits_as_often_as_its_busiest_access_runs() -> None:
    two, nothing = np.array([0, 1]), np.zeros(2)
    once = Executions(0, two, {}, nothing)
    loop = Executions(1, two, {}, nothing, low=np.array([0, 2]), high=np.array([7, 2]))
    assert waits([once, loop], 3).tolist() == [7.0, 1.0, 1.0]


PROBED = ("standard_scores", "square_tiling_scores", "small_cache_scores", "flash2_backward_columns", "rowwise_kernel")


def neighbours(programs: NDArray[np.int64], first: int) -> float:
    """Return the share of an SM's later programs that are close to the next one.

    They are less than a round of all SMs apart.
    """
    return float(np.mean(np.diff(np.sort(programs[first:])) < SMS))


def test_recorded_sms_run_programs_as_close_in_number_as_the_model_does() -> None:
    """In step none would be closer than a round."""
    found = [
        one for one in recorded("l1/h200-placement.json")["launches"] if one["kernel"] in PROBED and one["programs"] > 2000
    ]
    assert len(found) == 8
    for one in found:
        sms = {int(sm): np.array(rows) for sm, rows in one["sms"].items()}
        at_once = max(int(np.count_nonzero(rows[:, 1] < rows[:, 2].min())) for rows in sms.values())
        steps = 1.0 if one["kernel"] == "standard_scores" else 64.0
        placed = placed_by_ends(np.full(one["programs"], 1.0), np.full(one["programs"], steps), at_once * SMS)
        model = [neighbours(np.flatnonzero(placed.slot % SMS == sm)[:200], at_once) for sm in sms]
        counted = [neighbours(rows[:, 0], at_once) for rows in sms.values()]
        assert np.mean(model) == pytest.approx(np.mean(counted), abs=0.13), one["kernel"]
        even = schedule(np.full(one["programs"], 1.0), at_once * SMS)
        assert all(neighbours(np.flatnonzero(even.slot % SMS == sm), at_once) == 0 for sm in sms)


def test_paces_are_those_of_the_recorded_clocks() -> None:
    """SMs of a GPC take the same time, in clocks all do."""
    one = recorded("l2/h200-paces.json")["launches"][0]
    times, clocks = np.array(one["mean_ns"]), np.array(one["mean_clocks"])
    edges = np.cumsum([number for number, _ in PACES])
    assert edges[-1] == times.size == SMS
    parts = np.split(times / times.mean(), edges[:-1])
    assert [round(float(part.mean()), 3) for part in parts] == [pace for _, pace in PACES]
    assert max(np.ptp(part) for part in parts) < 0.002
    assert np.ptp(clocks / clocks.mean()) < 1e-3 < np.ptp(times / times.mean())


def test_programs_of_a_fast_gpc_get_ahead_more_in_each_wave() -> None:
    waves = 10
    found = placed_by_clocks(np.full(SMS * waves, 1000.0), SMS, SMS)
    spread = [float(np.std(found.start[SMS * wave : SMS * (wave + 1)])) for wave in range(waves)]
    assert spread[0] == 0
    assert all(after > before for before, after in itertools.pairwise(spread))
    assert spread[9] == pytest.approx(9 * spread[1], rel=0.05)
    first = np.arange(SMS)
    ahead = found.times(first, np.full(SMS, 500.0))
    assert ahead.argmin() in range(96, 114), "the fastest"
    assert ahead.mean() == pytest.approx(500.0, rel=1e-3)
