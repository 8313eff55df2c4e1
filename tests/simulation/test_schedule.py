"""Programs scheduled on slots in launch order, and the number of slots."""

from __future__ import annotations

import numpy as np
import pytest

from ioaware.machine.presets import A100, H200
from ioaware.simulation.occupancy import occupancy
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


@pytest.mark.parametrize(
    ("warps", "registers", "shared", "per_sm", "limit"),
    [
        (4, 167, 114688, 2, "shared memory"),  # flash2 at d 128, as measured on an H200
        (4, 126, 57344, 4, "shared memory"),  # flash2 at d 64: 4 x (57,344 + 1,024) is all of 228 KiB
        (4, 28, 0, 16, "warps"),  # flash1_init
        (4, 64, 0, 8, "registers"),
        (1, 16, 0, 32, "programs"),
        (8, 32, 0, 8, "warps"),
        (12, 168, 229784, 1, "shared memory"),
    ],
)
def test_occupancy_of_an_h200(warps: int, registers: int, shared: int, per_sm: int, limit: str) -> None:
    found = occupancy(H200, warps=warps, registers=registers, shared_bytes=shared)
    assert (found.per_sm, found.programs, found.limit) == (per_sm, 132 * per_sm, limit)


def test_occupancy_depends_on_the_machine() -> None:
    assert occupancy(A100, warps=4, registers=64, shared_bytes=80_000).programs == 2 * 108
