"""Sets of the L2: a sweep fills them evenly, what lies apart by chance."""

from __future__ import annotations

import numpy as np
import pytest

from ioaware.machine import find_machine
from ioaware.simulation.addresses.address_blocks import Blocks
from ioaware.simulation.l2.cache import L2, CacheConfig
from ioaware.simulation.l2.cache_sets import CacheSets, choose_sets
from ioaware.simulation.l2.events import READ, WRITE, Event, Events
from ioaware.simulation.sampling import Sample

WAYS, COUNT = 16, 61
SETS = CacheSets(COUNT, (0,), (1,))
BLOCK = Blocks(4096, 1, 4096, 1)


def sweep_misses(lines: int) -> float:
    """Return the share of a second sweep that misses, of lines of one byte."""
    cache = L2(CacheConfig(WAYS * COUNT, 1, sets=COUNT), [1.0], SETS.of)
    for _ in range(2):
        cache.run(Events.of(Event(line, 1, 0, READ, 0, 0, 0) for line in range(lines)))
    return cache.traffic[0].read_bytes / lines - 1


def test_a_sweep_changes_from_hit_to_miss_within_one_way() -> None:
    assert sweep_misses(WAYS * COUNT) == 0
    assert 0.4 < sweep_misses(round((WAYS + 0.5) * COUNT)) < 0.6
    assert sweep_misses((WAYS + 1) * COUNT) == 1


def test_every_way_of_memory_is_spread_evenly() -> None:
    found = np.bincount(SETS.of(np.arange(7 * COUNT)), minlength=COUNT)
    assert set(found.tolist()) == {7}


def test_a_column_of_tiles_meets_in_sets_by_chance() -> None:
    """Three quarters as large as the cache, it gives some sets more lines than ways."""
    found = np.bincount(SETS.of(np.arange(0, 12 * COUNT * COUNT, COUNT)), minlength=COUNT)
    assert found.max() > WAYS > 8 > found.min()


@pytest.mark.parametrize("apart", [2, 3, 10, 30])
def test_no_distance_between_lines_brings_them_to_few_sets(apart: int) -> None:
    assert np.unique(SETS.of(np.arange(0, 4 * apart * COUNT, apart))).size > 0.9 * COUNT


def test_sets_of_a_sample_are_those_of_all_lines() -> None:
    """One line in four has a quarter of the sets; its lines are numbered anew."""
    layouts, sizes = [Blocks(4096, 1, 4096, 1), Blocks(4096, 1, 4096, 1, first_line=5000)], [5000 * 4096, 100 * 4096]
    whole = choose_sets(layouts, sizes, Sample(), 2560 * 4096, WAYS)
    part = choose_sets(layouts, sizes, Sample(4, (4, 1), (1.0, 1.0)), 2560 * 4096 / 4, WAYS)
    assert (whole.count, part.count) == (157, 37)
    assert set(part.of(np.arange(0, 37 * 4, 4)).tolist()) == set(range(37))
    assert set(part.of(np.arange(5000, 5037)).tolist()) == set(range(37))


def test_one_set_where_the_ways_are_not_known() -> None:
    assert choose_sets([BLOCK], [4096], Sample(), 1e6, 0).count == 0
    assert CacheSets(0).of(np.array([12345])) == 0
    assert choose_sets([BLOCK], [4096], Sample(), 31.9 * WAYS * 4096, WAYS).count == 0, "too few for chance to even out"
    assert choose_sets([BLOCK], [4096], Sample(), 32 * WAYS * 4096, WAYS).count == 31


def test_a_set_holds_as_many_of_the_largest_lines_of_large_storages() -> None:
    """Of smaller ones it would hold so few that chance fills some sets."""
    narrow, wide = Blocks(4096, 1, 4096, 1), Blocks(4096, 1, 4096, 4, first_line=1 << 20)
    capacity_bytes = 64.0 * WAYS * wide.line_bytes
    for large in ([1 << 26, 1 << 26], [1 << 26, 1 << 23]):
        assert choose_sets([narrow, wide], large, Sample(), capacity_bytes, WAYS).count == 61
    assert choose_sets([narrow, wide], [1 << 26, 1 << 22], Sample(), capacity_bytes, WAYS).count == 251


def test_partitions_keep_their_own_sets() -> None:
    """A line read in both halves of the chip takes room in a set of each."""
    cache = L2(CacheConfig(2 * WAYS, 2, sets=1), [2.0], CacheSets(1, (0,), (1,)).of)
    for _ in range(2):
        cache.run(Events.of(Event(line, 1, 1, READ, 0, 0, 0) for line in range(WAYS // 2)))
    assert cache.traffic[0].read_bytes == WAYS
    for _ in range(2):
        cache.run(Events.of(Event(line, 1, 1, READ, 0, 0, 0) for line in range(WAYS // 2 + 1)))
    assert cache.traffic[0].read_bytes > 2 * WAYS


def test_dirty_lines_that_a_full_set_evicts_are_written() -> None:
    cache = L2(CacheConfig(WAYS, 1, sets=1), [1.0], CacheSets(1).of)
    cache.run(Events.of(Event(line, 1, 0, WRITE, 0, 0, 0) for line in range(WAYS + 3)))
    assert (cache.traffic[0].write_bytes, sum(cache.dirty_bytes)) == (3, WAYS)


def test_the_h200_holds_what_its_sweeps_say() -> None:
    """Half of a sweep by all SMs misses at two copies of 32.6 MB: probes."""
    machine = find_machine("H200")
    held = machine.level("l2").capacity_bytes * machine.l2_model.reach
    assert abs(held / 65.2e6 - 1) < 0.01
