"""Compute how many programs of a kernel run at once.

It follows from registers, shared memory and warps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ioaware.machine.model import Machine

WARPS_PER_SM, PROGRAMS_PER_SM, LANES = 64, 32, 32
"""Limits of an SM.

Source: CUDA C++ Programming Guide, technical specifications, compute capabilities 8.0, 9.0 and 10.0.
"""
SMALLER_SMS: Mapping[int, tuple[int, int]] = {86: (48, 16), 89: (48, 24), 120: (48, 24)}
"""Warps and programs of an SM by compute capability, where they are fewer.

Source: as above.
"""
REGISTER_UNIT = 256
"""Registers are allocated to a warp in units of 256.

Source: CUDA occupancy calculator, compute capabilities 7.0 to 12.0.
"""
PARTITIONS = 4
"""Parts of an SM, each with its own registers.

A warp stays in one.

Source: NVIDIA H100 whitepaper; warps of an SM come in multiples of 4 in the CUDA occupancy calculator.
"""
RESERVED_SHARED_BYTES, SHARED_UNIT_BYTES = 1024, 128
"""Shared memory that the system reserves per program, and the unit of it.

Source: CUDA C++ Programming Guide, compute capability 8.x and 9.0; CUDA occupancy calculator.
"""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Programs on one SM, on the whole GPU, and the limiting resource."""

    per_sm: int
    programs: int
    limit: str


def programs_per_sm(
    *,
    warps: int,
    registers: int | None,
    shared_bytes: int,
    sm_registers: int,
    sm_shared_bytes: int,
    compute_capability: int = 90,
) -> tuple[int, str]:
    """Return how many programs one SM runs at once, and the limiting resource.

    `registers` are per thread, None ignores them; `sm_registers` of 32 bits and
    `sm_shared_bytes` are those of one SM.
    """
    most_warps, most_programs = SMALLER_SMS.get(compute_capability, (WARPS_PER_SM, PROGRAMS_PER_SM))
    limits = {
        "programs": most_programs,
        "warps": most_warps // max(warps, 1),
        "shared memory": sm_shared_bytes // allocated_shared_bytes(shared_bytes),
    }
    if registers:
        each = -(-registers * LANES // REGISTER_UNIT) * REGISTER_UNIT
        limits["registers"] = sm_registers // PARTITIONS // each * PARTITIONS // warps
    limit = min(limits, key=limits.__getitem__)
    return max(1, limits[limit]), limit


def allocated_shared_bytes(shared_bytes: int) -> int:
    """Return the shared memory that a program takes, with what the system reserves."""
    return -(-(shared_bytes + RESERVED_SHARED_BYTES) // SHARED_UNIT_BYTES) * SHARED_UNIT_BYTES


def most_registers(warps: int) -> int:
    """Return the most registers of a thread: 255, or less.

    It is less where many warps share those of an SM.

    Source: CUDA C++ Programming Guide, 64 K registers a program, compute capabilities 8.0 to 12.0.
    """
    return min(255, 64 * 1024 // (LANES * max(warps, 1)) // 8 * 8)


def occupancy(machine: Machine, *, warps: int, registers: int | None, shared_bytes: int) -> Occupancy:
    """Return how many programs run at once.

    `registers` are per thread; None ignores them.
    """
    per_sm, limit = programs_per_sm(
        warps=warps,
        registers=registers,
        shared_bytes=shared_bytes,
        sm_registers=machine.level("registers").capacity_bytes // 4,
        sm_shared_bytes=machine.level("shared").capacity_bytes,
        compute_capability=machine.compute_capability,
    )
    return Occupancy(per_sm, per_sm * machine.sms, limit)
