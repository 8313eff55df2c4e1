"""Events of local memory in the replay of an L1."""

from __future__ import annotations

import numpy as np
import pytest

from ioaware.simulation.l1.l1_events import LOCAL_TENSOR, TENSOR_BYTES, count_local_events, local_events
from ioaware.simulation.l1.l1_sets import NORMAL, STORED
from ioaware.simulation.l1.l1_shape import LINE_BYTES, LINE_SECTORS
from ioaware.simulation.schedule import schedule
from ioaware.simulation.spills.local_memory import LocalMemory, local_memory
from ioaware.simulation.spills.machine_trace import MachineTrace, MemoryInstruction
from ioaware.simulation.spills.refill_misses import L1Sharing


def memory(warps: int) -> LocalMemory:
    kinds = [("spill", 0), ("spill", 4), ("refill", 0)]
    trace = MachineTrace(tuple(MemoryInstruction(kind, 4, at, "k.py:1", None) for kind, at in kinds), ())  # type: ignore[arg-type]
    found = local_memory(trace, (), warps, L1Sharing(1 << 18, warps))
    assert found
    return found


@pytest.mark.parametrize(("warps", "pieces"), [(1, 1), (16, 1), (32, 2)])
def test_each_slot_has_lines_of_its_own_for_every_word(warps: int, pieces: int) -> None:
    """Of six programs on two slots, the first three take part."""
    local, durations = memory(warps), np.full(6, 10.0)
    programs, kept = schedule(durations, 2), np.arange(3)
    events = local_events(local, programs, durations, kept, programs.slot, 5)
    assert events.chunk.size == kept.size * count_local_events(local) == 3 * 3 * pieces
    assert set(events.use.tolist()) == {STORED, NORMAL}
    lines = [
        chunk * count + line
        for chunk, count in zip(events.chunk.tolist(), events.lines.tolist(), strict=True)
        for line in range(count)
    ]
    base = LOCAL_TENSOR * TENSOR_BYTES // LINE_BYTES
    assert sorted({line - base for line in lines}) == list(range(2 * 2 * warps))
    assert {bin(mask).count("1") for mask in events.mask.tolist()} == {LINE_SECTORS * warps // pieces}
    first, second, third = (events.time[events.sm == 0][:: 3 * pieces][:1], events.time[events.sm == 1][:1], events.time[-1:])
    assert first == second < 10 < third <= 20
