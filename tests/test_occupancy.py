"""Programs that run at once, by registers, shared memory and warps."""

from __future__ import annotations

import pytest

from ioaware.machine.occupancy import most_registers, occupancy
from ioaware.machine.presets import A100, H200, L40S


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
        (3, 96, 0, 6, "registers"),  # 5 warps in each of an SM's 4 parts; 21 would fit in all of its registers
        (4, 32, 32329, 6, "shared memory"),  # in units of 128 bytes; without them 7 would fit
    ],
)
def test_occupancy_of_an_h200(warps: int, registers: int, shared: int, per_sm: int, limit: str) -> None:
    found = occupancy(H200, warps=warps, registers=registers, shared_bytes=shared)
    assert (found.per_sm, found.programs, found.limit) == (per_sm, 132 * per_sm, limit)


def test_occupancy_depends_on_the_machine() -> None:
    assert occupancy(A100, warps=4, registers=64, shared_bytes=80_000).programs == 2 * 108


def test_an_sm_of_compute_capability_8_9_runs_fewer_warps_and_programs() -> None:
    assert occupancy(L40S, warps=4, registers=28, shared_bytes=0).per_sm == 12
    assert occupancy(L40S, warps=1, registers=16, shared_bytes=0).per_sm == 24


def test_many_warps_leave_fewer_registers() -> None:
    assert [most_registers(warps) for warps in (1, 4, 8, 16, 32)] == [255, 255, 255, 128, 64]
