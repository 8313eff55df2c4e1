"""Where a counter sees other requests than the algorithm's: fewer where the L1 can answer, more where registers spill.

Theorem 2 counts what a program asks of slow memory, and the counter sees what passes the L1. Algorithm 1 reads O, l and m of
all N rows again for every column block: while those fit in the L1 beside the kernel's shared memory, some are hits. In
the other two kernels no program reads an address twice. Registers that a compiler spills travel through the same L1 to
the L2: bytes that no algorithm asked for.
"""

from __future__ import annotations

from ioaware.analysis.claims.evidence import Observation
from ioaware.analysis.counting import FP32_BYTES
from ioaware.machine import DEFAULT_MACHINE

L1_BYTES = DEFAULT_MACHINE.level("l1").capacity_bytes  # L1 and shared memory of one SM of the GPU that was recorded


def inner_working_set_bytes(seen: Observation) -> int:
    """What one program reads again and again: O, l, m of N rows in Algorithm 1, nothing in the others."""
    if seen.target != "flash1":
        return 0
    values = seen.values
    return values["N"] * (values["d"] * values["e"] + 2 * FP32_BYTES)


def l1_can_help(seen: Observation) -> bool:
    """The criterion: the inner working set is not empty and fits in 256 KB less the shared memory of the launch."""
    shared = max((launch.shared_bytes or 0 for launch in seen.observed.launches), default=0)
    return 0 < inner_working_set_bytes(seen) <= L1_BYTES - shared


def as_asked(seen: Observation) -> bool:
    """Neither: the counter sees what the algorithm asks for."""
    return not l1_can_help(seen) and not spills(seen)


def spills(seen: Observation) -> bool:
    """Whether a kernel of the launch keeps registers in local memory, by the compiler's own count."""
    return any(launch.local_bytes for launch in seen.observed.launches)
