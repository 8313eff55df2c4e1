"""Find the local memory of a launch from its machine code."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.compilation.instructions.line_sharing import SharedLines
from ioaware.compilation.resource_usage import Resources
from ioaware.machine.occupancy import LANES, Occupancy
from ioaware.simulation.spills.lines_of_places import lines_of_places
from ioaware.simulation.spills.local_memory import LocalMemory, local_memory
from ioaware.simulation.spills.machine_trace import MachineTrace, machine_trace
from ioaware.simulation.spills.refill_misses import L1Sharing
from ioaware.simulation.spills.region_counts import counts_by_place, region_counts
from ioaware.simulation.timeline import Executions


@dataclass
class LaunchSpills:
    """Local memory of the programs of one launch, found once.

    `local_bytes` are those of a thread, `warps` those of a program, `l1_bytes` those of an SM's L1. `lines` are the accesses
    whose instructions may share lines.
    """

    trace: MachineTrace
    local_bytes: int
    warps: int
    at_once: Occupancy
    l1_bytes: int
    lines: Sequence[SharedLines] = ()
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
            places = lines_of_places(touches, executions, indices, self.lines)
            sm = L1Sharing(self.l1_bytes, self.warps, per_sm, -(-programs // self.at_once.programs), places)
            self._found.append(local_memory(self.trace, counts, self.warps, sm, most))
        return self._found[0]


def launch_spills(used: Resources, *, warps: int, at_once: Occupancy, l1_bytes: int) -> LaunchSpills | None:
    """Return the spills of a kernel.

    None where it has none, or its machine code cannot be read.
    """
    trace = machine_trace(used.cubin) if used.local_bytes and used.cubin else None
    return LaunchSpills(trace, used.local_bytes or 0, warps, at_once, l1_bytes, used.lines) if trace else None
