"""Programs scheduled on slots in launch order, and the number of slots."""

from __future__ import annotations

import numpy as np

from ioaware.simulation.schedule import schedule


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
