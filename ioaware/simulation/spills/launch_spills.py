"""Find the local memory of a launch from its machine code."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.machine.occupancy import LANES, Occupancy
from ioaware.simulation.l1.l1_shape import L1Shape
from ioaware.simulation.spills.local_memory import LocalMemory, local_memory
from ioaware.simulation.spills.machine_trace import MachineTrace, machine_trace
from ioaware.simulation.spills.refill_misses import L1Sharing
from ioaware.simulation.spills.region_counts import common_places, counts_by_place, region_counts
from ioaware.simulation.timeline import Executions


@dataclass
class LaunchSpills:
    """Local memory of the programs of one launch, found once.

    `local_bytes` are those of a thread, `warps` those of a program, `shape` is the L1 of an SM.
    """

    trace: MachineTrace
    local_bytes: int
    warps: int
    at_once: Occupancy
    shape: L1Shape
    _found: list[LocalMemory | None] = field(default_factory=list[LocalMemory | None])

    @property
    def bytes_at_once(self) -> int:
        """Bytes of local memory of all programs that run at once."""
        return self.local_bytes * LANES * self.warps * self.at_once.programs

    def of(
        self, touches: Sequence[Touch], executions: Sequence[Executions], programs: int, indices: Collection[str]
    ) -> LocalMemory | None:
        """Return the local memory of a program that executes these accesses.

        `indices` are the names of the program's indices.
        """
        if not self._found:
            places = counts_by_place(touches, executions, programs)
            counts, most = (region_counts(self.trace, places, self.warps, most=most) for most in (False, True))
            sms = self.at_once.programs // self.at_once.per_sm
            per_sm = min(self.at_once.per_sm, -(-programs // sms))
            sm = L1Sharing(self.shape, self.warps * per_sm, common_places(touches, indices))
            self._found.append(local_memory(self.trace, counts, self.warps, sm, most))
        return self._found[0]


def launch_spills(cubin: bytes, local_bytes: int, *, warps: int, at_once: Occupancy, shape: L1Shape) -> LaunchSpills | None:
    """Return the spills of a kernel; None where its machine code cannot be read."""
    trace = machine_trace(cubin)
    return LaunchSpills(trace, local_bytes, warps, at_once, shape) if trace else None
