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
