"""Programs scheduled on slots in launch order, and the number of slots."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.simulation.schedule import AgedSm, schedule, schedule_by_age


def geometric(rate: float, programs: int) -> tuple[float, ...]:
    """Return rates of programs, each so much slower than the next older one."""
    return tuple(rate**number for number in range(programs))


def test_equal_programs_run_in_waves() -> None:
    found = schedule(np.full(10, 3.0), 4)
    assert found.start.tolist() == [0, 0, 0, 0, 3, 3, 3, 3, 6, 6]
    assert found.wave.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert found.slot.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]


def test_a_slot_takes_the_next_program_as_one_ends() -> None:
    found = schedule(np.array([5.0, 1.0, 1.0, 1.0]), 2)
    assert found.start.tolist() == [0, 0, 1, 2]
    assert found.slot.tolist() == [0, 1, 1, 1]


def test_delays_hold_back_the_first_programs() -> None:
    found = schedule(np.full(4, 2.0), 2, np.array([0.0, 1.0]))
    assert found.start.tolist() == [0, 1, 2, 3]


def test_programs_spread_over_both_partitions() -> None:
    placed = schedule(np.ones(4096), 132)
    sides = placed.partitions(np.arange(4096, dtype=np.int64))
    assert set(np.unique(sides).tolist()) == {1, 2}
    assert abs(np.count_nonzero(sides == 1) - 2048) < 64
    for stride in (2, 64, 132, 264):  # programs that read the same tile are often so far apart
        same = np.count_nonzero(sides[stride:] == sides[:-stride]) / (4096 - stride)
        assert 0.2 < same < 0.8, stride


def test_older_programs_of_an_sm_end_first() -> None:
    """On one SM, at rates 1 and 0.5: the second has done half when the first ends."""
    found = schedule_by_age(np.full(3, 6.0), 2, AgedSm((1.0, 0.5)))
    assert found.start.tolist() == [0.0, 0.0, 4.5]
    assert found.times(np.array([0, 1, 1, 2]), np.array([6.0, 3.0, 6.0, 0.0])) == pytest.approx([4.5, 4.5, 6.75, 4.5], abs=0.01)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 3), st.integers(1, 4), st.floats(0.2, 1.0))
@settings(max_examples=60, deadline=None)
def test_all_work_is_done_at_a_mean_rate_of_one(work: list[int], sms: int, per_sm: int, rate: float) -> None:
    durations = np.array(work, dtype=np.float64)
    found = schedule_by_age(durations, sms * per_sm, AgedSm(geometric(rate, per_sm)))
    numbers = np.arange(durations.size)
    begin, end = found.times(numbers, np.zeros(durations.size)), found.times(numbers, durations)
    assert begin == pytest.approx(found.start, abs=1e-3)
    assert (end - begin).sum() == pytest.approx(durations.sum(), rel=1e-3)


def test_equal_rates_are_the_plain_schedule() -> None:
    durations = np.array([5.0, 1.0, 3.0, 4.0, 2.0, 2.0])
    plain, aged = schedule(durations, 2), schedule_by_age(durations, 2, AgedSm((1.0, 1.0)))
    assert aged.start == pytest.approx(plain.start)


@pytest.mark.parametrize(("count", "sms", "per_sm"), [(37, 4, 3), (24, 4, 3), (130, 8, 2)])
def test_sms_with_equal_programs_all_do_the_same(count: int, sms: int, per_sm: int) -> None:
    """Each has the times of one SM alone, whatever chance gives it."""
    found = schedule_by_age(np.full(count, 6.0), sms * per_sm, AgedSm(geometric(0.7, per_sm)))
    alone = schedule_by_age(np.full(-(-count // sms), 6.0), per_sm, AgedSm(geometric(0.7, per_sm)))
    numbers, turns = np.arange(count), np.arange(count) // sms
    for work in (0.0, 2.5, 6.0):
        wanted = alone.times(turns, np.full(count, work))
        assert found.times(numbers, np.full(count, work)) == pytest.approx(wanted)
    placed = found.slot % sms
    assert (placed[: sms * per_sm] == numbers[: sms * per_sm] % sms).all()
    whole = count // sms
    assert (np.bincount(placed[: whole * sms], minlength=sms) == whole).all()
    for slot in np.unique(found.slot):  # a slot has one program at a time
        mine = numbers[found.slot == slot]
        ends = found.times(mine, np.full(mine.size, 6.0))
        assert (found.start[mine][1:] >= ends[:-1] - 1e-3).all()
