"""What spilled registers move between L1 and L2."""

from dataclasses import replace

import numpy as np
import pytest

from ioaware.simulation.l2.events import READ, WRITE
from ioaware.simulation.schedule import schedule
from ioaware.simulation.spills.lines_of_places import PlaceLines
from ioaware.simulation.spills.local_memory import LocalMemory, local_memory
from ioaware.simulation.spills.local_streams import local_streams
from ioaware.simulation.spills.machine_trace import MachineTrace, MemoryInstruction, Region
from ioaware.simulation.spills.refill_misses import L1Sharing, refill_misses

LOOP = Region(loop=True, parent=None)
L1_BYTES = 256 * 1024


def spilling(words: int, *, region: int | None = None) -> list[MemoryInstruction]:
    """Return stores of so many words, then their loads."""
    return [MemoryInstruction(kind, 4, 4 * word, "k.py:1", region) for kind in ("spill", "refill") for word in range(words)]


def memory(trace: MachineTrace, counts: tuple[float, ...] = (), *, warps: int = 2, warps_per_sm: int = 8) -> LocalMemory:
    found = local_memory(trace, counts, warps, L1Sharing(L1_BYTES, warps, max(1, warps_per_sm // warps)))
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
    found = local_memory(trace, (0.0,), 2, L1Sharing(L1_BYTES, 8), (5.0,))
    assert found
    assert (found.spilled_bytes, found.most_spilled_bytes) == (256, 6 * 256)


def test_a_kernel_that_spills_nothing_has_no_local_memory() -> None:
    trace = MachineTrace((MemoryInstruction("global", 16, 0, "k.py:1", None),), ())
    assert local_memory(trace, (), 4, L1Sharing(L1_BYTES, 8)) is None


@pytest.mark.parametrize(("weights", "missed"), [(PlaceLines(), 1), (PlaceLines(inside=0.25), 0), (PlaceLines(common=True), 0)])
def test_lines_of_tensors_push_out_spilled_registers_unless_they_are_masked_or_once_in_the_l1(
    weights: PlaceLines, missed: float
) -> None:
    first, last = spilling(1)
    loads = [MemoryInstruction("global", 16, 0, "k.py:7", None)] * 100
    misses = refill_misses(MachineTrace((first, *loads, last), ()), (), L1Sharing(L1_BYTES, 8, places={"k.py:7": weights}))
    assert misses[-1] == pytest.approx(missed, abs=0.01)


@pytest.mark.parametrize(("shared", "missed"), [(0.0, 0), (1.0, 1)])
def test_a_register_that_was_used_again_stays_but_for_lines_that_several_instructions_touch(
    shared: float, missed: float
) -> None:
    first, last = spilling(1)
    loads = [MemoryInstruction("global", 16, 0, "k.py:7", None)] * 100
    trace = MachineTrace((first, first, *loads, last), ())
    misses = refill_misses(trace, (), L1Sharing(L1_BYTES, 8, places={"k.py:7": PlaceLines(shared=shared)}))
    assert misses[-1] == pytest.approx(missed, abs=0.01)


def test_a_load_of_last_use_brings_no_line_and_keeps_none() -> None:
    """Words are loaded twice after others came, or used again before."""
    first, last = spilling(1)
    ends = replace(last, last_use=True)
    loads = [MemoryInstruction("global", 16, 0, "k.py:7", None)] * 100
    pushed = [refill_misses(MachineTrace((first, *loads, one, last), ()), (), L1Sharing(L1_BYTES, 8)) for one in (last, ends)]
    assert [one[-1] for one in pushed] == pytest.approx([0, 1], abs=0.01)
    kept = [refill_misses(MachineTrace((first, one, *loads, last), ()), (), L1Sharing(L1_BYTES, 8)) for one in (last, ends)]
    assert [one[-1] for one in kept] == pytest.approx([0, 1], abs=0.01)


def test_programs_at_one_place_share_addresses() -> None:
    found = memory(MachineTrace(tuple(spilling(1000)), ()))
    durations = np.full(6, 10.0)
    streams = list(local_streams(found, schedule(durations, 2), durations))
    moved = {kind: sum(one.base.size * one.parts[0].bytes for of, one in streams if of == kind) for kind in (READ, WRITE)}
    assert moved == {READ: 6 * found.refilled_bytes, WRITE: 6 * found.spilled_bytes}
    ends = [int(one.base.max()) + one.parts[0].offset + one.parts[0].run for _, one in streams]
    assert max(ends) <= 2 * found.words * found.word_bytes
    assert all(one.time.min() >= 0 and one.time.max() <= 30 for _, one in streams)
