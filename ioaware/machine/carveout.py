"""Divide the cache of an SM between shared memory and its L1.

Nothing published says how the driver divides it. The rule is that of each of 2,187 launches on an H200, in
`ioaware/recorded/l1/h200-carveout.json`: 1 to 32 warps, 22 to 254 registers a thread, up to 48 KiB of shared memory.
"""

from __future__ import annotations

from ioaware.machine.model import L1Model, Machine
from ioaware.machine.occupancy import PROGRAMS_PER_SM, allocated_shared_bytes, occupancy


def l1_bytes(machine: Machine, *, warps: int, registers: int | None, shared_bytes: int) -> int:
    """Return the bytes of an SM's L1 beside the shared memory of the programs on it.

    `registers` are per thread, `shared_bytes` per program.
    """
    per_sm = occupancy(machine, warps=warps, registers=registers, shared_bytes=shared_bytes).per_sm
    most, model = machine.level("shared").capacity_bytes, machine.l1_model
    needed = most if shared_bytes > model.prefers_shared_bytes else _needed_bytes(model, per_sm, warps, shared_bytes)
    configured = next((step for step in model.shared_steps if needed <= step <= most), most)
    return max(0, machine.level("l1").capacity_bytes - configured)


def _needed_bytes(model: L1Model, per_sm: int, warps: int, shared_bytes: int) -> int:
    """Return the least shared memory that the driver configures for `per_sm` programs.

    Where more than one program runs, there is room for twice as many: at most 32 less the warps of one, up to a limit.
    """
    each = allocated_shared_bytes(shared_bytes)
    room = PROGRAMS_PER_SM - warps
    if shared_bytes:
        room = min(2 * per_sm, room)
    return per_sm * each if per_sm == 1 else max(per_sm * each, min(room * each, model.spare_shared_bytes))
