"""What spilled registers move between L1 and L2."""

from dataclasses import replace

import numpy as np
import pytest

from ioaware.machine.model import L1_OF_H200
from ioaware.simulation.l1.l1_shape import L1Shape
from ioaware.simulation.l2.events import READ, WRITE
from ioaware.simulation.schedule import schedule
from ioaware.simulation.spills.local_memory import LocalMemory, local_memory
from ioaware.simulation.spills.local_streams import local_streams
from ioaware.simulation.spills.machine_trace import MachineTrace, MemoryInstruction, Region
from ioaware.simulation.spills.refill_misses import L1Sharing, refill_misses

LOOP = Region(loop=True, parent=None)
L1 = L1Shape(256 * 1024, L1_OF_H200)


def spilling(words: int, *, region: int | None = None) -> list[MemoryInstruction]:
    """Return stores of so many words, then their loads."""
    return [MemoryInstruction(kind, 4, 4 * word, "k.py:1", region) for kind in ("spill", "refill") for word in range(words)]


def memory(trace: MachineTrace, counts: tuple[float, ...] = (), *, warps: int = 2, warps_per_sm: int = 8) -> LocalMemory:
    found = local_memory(trace, counts, warps, L1Sharing(L1, warps_per_sm))
    assert found is not None
    return found


def test_stores_go_through_and_loads_hit_what_fits_the_l1() -> None:
    found = memory(MachineTrace(tuple(spilling(100)), ()))
    assert (found.words, found.word_bytes) == (100, 128 * 2)
    assert (found.spilled_bytes, found.refilled_bytes, found.loaded_bytes) == (25_600, 0, 25_600)


def test_loads_miss_where_the_warps_of_an_sm_have_more_lines() -> None:
    found = memory(MachineTrace(tuple(spilling(1000)), ()))
    assert found.refilled_bytes == pytest.approx(found.loaded_bytes, rel=1e-6)
    assert memory(MachineTrace(tuple(spilling(1000)), ()), warps_per_sm=1).refilled_bytes == 0


def test_a_loop_repeats_its_spills() -> None:
    found = memory(MachineTrace(tuple(spilling(1000, region=0)), (LOOP,)), (7.0,))
    assert found.spilled_bytes == 7 * 1000 * 128 * 2
    assert found.events.stores.sum() == (~found.events.stores).sum() == 7 * 1000


def test_skipped_code_spills_only_when_it_runs() -> None:
    loads = MemoryInstruction("global", 16, 0, "k.py:1", 0)
    trace = MachineTrace((loads, *spilling(1000, region=1)), (LOOP, Region(loop=False, parent=0)))
    found = memory(trace, (9.0, 3.0))
    assert found.spilled_bytes == 3 * 1000 * 128 * 2
    assert found.events.stores.sum() == 3 * 1000
    assert found.events.share.max() > 0.5


def test_skipped_code_of_unknown_count_is_in_the_most_alone() -> None:
    """One word is spilled once, another by code that runs never or 5 times."""
    code = MemoryInstruction("spill", 4, 0, "k.py:1", None), MemoryInstruction("spill", 4, 4, "k.py:2", 0)
    trace = MachineTrace(code, (Region(loop=False, parent=None),))
    found = local_memory(trace, (0.0,), 2, L1Sharing(L1, 8), (5.0,))
    assert found
    assert (found.spilled_bytes, found.most_spilled_bytes) == (256, 6 * 256)


def test_a_kernel_that_spills_nothing_has_no_local_memory() -> None:
    trace = MachineTrace((MemoryInstruction("global", 16, 0, "k.py:1", None),), ())
    assert local_memory(trace, (), 4, L1Sharing(L1, 8)) is None


def test_lines_that_all_programs_read_are_once_in_the_l1() -> None:
    first, last = spilling(1)
    weights = [MemoryInstruction("global", 16, 0, "k.py:7", None)] * 100
    trace = MachineTrace((first, *weights, last), ())
    misses = [refill_misses(trace, (), L1Sharing(L1, 8, common))[-1] for common in (frozenset[str](), frozenset({"k.py:7"}))]
    assert misses == pytest.approx([1, 0], abs=0.01)


def test_a_load_of_last_use_frees_its_line() -> None:
    pairs = [spilling(1)[0], replace(spilling(1)[1], last_use=True)]
    freed = [replace(one, offset=4 * word) for word in range(1, 1000) for one in pairs]
    kept = [replace(one, last_use=False) for one in freed]
    first, last = spilling(1)
    assert memory(MachineTrace((first, *freed, last), ())).refilled_bytes == 0
    assert memory(MachineTrace((first, *kept, last), ())).refilled_bytes == 128 * 2


def test_programs_at_one_place_share_addresses() -> None:
    found = memory(MachineTrace(tuple(spilling(1000)), ()))
    durations = np.full(6, 10.0)
    streams = list(local_streams(found, schedule(durations, 2), durations))
    moved = {kind: sum(one.base.size * one.parts[0].bytes for of, one in streams if of == kind) for kind in (READ, WRITE)}
    assert moved == {READ: 6 * found.refilled_bytes, WRITE: 6 * found.spilled_bytes}
    ends = [int(one.base.max()) + one.parts[0].offset + one.parts[0].run for _, one in streams]
    assert max(ends) <= 2 * found.words * found.word_bytes
    assert all(one.time.min() >= 0 and one.time.max() <= 30 for _, one in streams)
