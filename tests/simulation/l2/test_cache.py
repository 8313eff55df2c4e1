"""The cache model against a brute-force LRU cache.

It follows the laws that any cache obeys.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.simulation.l2.cache import L2, CacheConfig
from ioaware.simulation.l2.events import ATOMIC, READ, WRITE, Event, Events

LARGE = 1e12


def event(line: int, kind: int = READ, mask: int = 1, partitions: int = 1, wave: int = 0, program: int = 0) -> Event:
    return Event(line, mask if partitions & 1 else 0, mask if partitions & 2 else 0, kind, 0, wave, program)


def replay(events: Sequence[Event], capacity: float, partitions: int = 1, block_bytes: float = 1) -> L2:
    cache = L2(CacheConfig(capacity, 1 if partitions == 1 else 2), [block_bytes])
    cache.run(Events.of(events))
    return cache


class BruteForce:
    """A list of units, the last used last.

    Written units are written back when they leave.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity, self.held, self.dirty = capacity, list[int](), set[int]()
        self.reads = self.writes = 0

    def run(self, events: Sequence[Event]) -> None:
        for one in events:
            if one.line in self.held:
                self.held.remove(one.line)
            elif one.kind != WRITE:
                self.reads += 1
            self.held.append(one.line)
            if one.kind != READ:
                self.dirty.add(one.line)
            while len(self.held) > self.capacity:
                gone = self.held.pop(0)
                if gone in self.dirty:
                    self.dirty.remove(gone)
                    self.writes += 1


STREAMS = st.lists(st.builds(event, st.integers(0, 12), st.sampled_from([READ, WRITE, ATOMIC])), max_size=120)
READS = st.lists(
    st.builds(event, st.integers(0, 12), mask=st.integers(1, 7), partitions=st.integers(1, 3), wave=st.integers(0, 2)),
    max_size=120,
)


@given(STREAMS, st.integers(1, 14))
@settings(max_examples=200, deadline=None)
def test_equals_a_brute_force_lru(events: list[Event], capacity: int) -> None:
    expected = BruteForce(capacity)
    expected.run(events)
    found = replay(events, capacity)
    assert (found.traffic[0].read_bytes, found.traffic[0].write_bytes) == (expected.reads, expected.writes)
    assert sum(found.dirty_bytes) == len(expected.dirty)


@given(READS, st.sampled_from([1, 2]))
@settings(max_examples=100, deadline=None)
def test_an_infinite_cache_reads_each_block_once(events: list[Event], partitions: int) -> None:
    distinct: dict[int, int] = {}
    for one in events:
        distinct[one.line] = distinct.get(one.line, 0) | one.left | one.right
    traffic = replay(events, LARGE, partitions).traffic[0]
    assert traffic.read_bytes == traffic.first_bytes == sum(mask.bit_count() for mask in distinct.values())


@given(READS)
@settings(max_examples=100, deadline=None)
def test_a_cache_of_size_0_reads_all_that_is_requested(events: list[Event]) -> None:
    traffic = replay(events, 0).traffic[0]
    assert traffic.read_bytes == sum((one.left | one.right).bit_count() for one in events)


@given(READS, st.sampled_from([1, 2]), st.integers(0, 40))
@settings(max_examples=150, deadline=None)
def test_reads_lie_between_distinct_and_requested_and_add_up(events: list[Event], partitions: int, capacity: int) -> None:
    traffic = replay(events, capacity, partitions).traffic[0]
    requested = sum(
        one.left.bit_count() + one.right.bit_count() if partitions == 2 else (one.left | one.right).bit_count()
        for one in events
    )
    assert traffic.first_bytes <= traffic.read_bytes <= requested
    assert traffic.read_bytes == traffic.first_bytes + sum(traffic.excess_bytes.values())


@given(STREAMS, st.integers(1, 12))
@settings(max_examples=150, deadline=None)
def test_a_larger_lru_cache_never_reads_more(events: list[Event], capacity: int) -> None:
    """The stack property: a larger LRU cache holds what a smaller one holds.

    Each is of one partition.
    """
    assert replay(events, capacity + 1).traffic[0].read_bytes <= replay(events, capacity).traffic[0].read_bytes


def test_lines_read_by_both_partitions_are_held_twice() -> None:
    """10 units of 1 byte, read over and over: 15 bytes hold them for one side.

    20 bytes hold them for both.
    """
    sweep = [event(line) for line in range(10)] * 3
    assert replay(sweep, 15, 2).traffic[0].read_bytes == 10
    assert replay(sweep, 9, 2).traffic[0].read_bytes > 15
    both = [one._replace(right=one.left) for one in sweep]
    assert replay(both, 20, 2).traffic[0].read_bytes == 10
    assert replay(both, 19, 2).traffic[0].read_bytes > 10
    assert replay(both, 14, 2).traffic[0].read_bytes == 30


def test_a_hit_in_a_copy_leaves_the_line_at_its_home_as_old_as_it_was() -> None:
    first, second, third = event(1), event(2), event(3)
    found = replay([first, second, first, third, event(1, partitions=2)], capacity=3, partitions=2)
    assert found.traffic[0].read_bytes == 3.5  # the half whose home is the other partition left it


def test_by_age_a_line_leaves_although_it_is_read_again() -> None:
    events = [one for line in range(1, 9) for one in (event(0), event(line))]
    kept, aged = (L2(CacheConfig(4.5, 2, by_age=by_age), [1.0]) for by_age in (False, True))
    kept.run(Events.of(events))
    aged.run(Events.of(events))
    assert kept.traffic[0].read_bytes == 9
    assert aged.traffic[0].read_bytes > 9


@pytest.mark.parametrize(("partitions", "needed"), [(1, 15), (2, 15), (3, 20)])
def test_writes_are_held_at_their_home_and_by_the_partition_that_writes(partitions: int, needed: int) -> None:
    writes = [event(line, WRITE, partitions=partitions) for line in range(10)]
    assert replay(writes, needed, 2).traffic[0].write_bytes == 0
    assert replay(writes, needed - 1, 2).traffic[0].write_bytes > 0
    atomics = [event(line, ATOMIC, partitions=partitions) for line in range(10)]
    assert replay(atomics, 10, 2).traffic[0].write_bytes == 0


def test_dirty_blocks_are_written_when_they_are_too_many() -> None:
    writes = [event(line, WRITE) for line in range(10)]
    cache = L2(CacheConfig(15, 2, dirty_bytes=4), [1.0])
    cache.run(Events.of(writes))
    assert cache.traffic[0].write_bytes == 6
    assert sum(cache.dirty_bytes) == 4


def test_a_write_invalidates_the_copies() -> None:
    """The other partition copies the new value from its home partition again.

    It does so without HBM.
    """
    cache = replay([event(0, partitions=3), event(0, WRITE), event(0, partitions=3)], 8, 2)
    assert cache.traffic[0].read_bytes == 1


def test_a_write_leaves_no_stale_copy_in_the_other_partition() -> None:
    """Its next read goes to the home, which makes the block recent there."""
    written = [event(0, partitions=3), event(0, WRITE), event(1)]
    after = replay([*written, event(0, partitions=2), event(2), event(0)], 4, 2)
    assert after.traffic[0].read_bytes == 3


def test_reasons() -> None:
    small = 1
    waves = [event(0, wave=0), event(1, wave=0), event(0, wave=1, program=9)]
    assert replay(waves, small).traffic[0].excess_bytes["wave"] == 1
    again = [event(0), event(1), event(0)]
    assert replay(again, small).traffic[0].excess_bytes["capacity"] == 1
    late = [event(0), event(1), event(0, program=5)]
    assert replay(late, small).traffic[0].excess_bytes["skew"] == 1


@pytest.mark.parametrize("kept", [True, False])
def test_dirty_lines_stay_for_the_next_launch_unless_flushed(kept: bool) -> None:
    cache = replay([event(0, WRITE)], 4)
    if not kept:
        cache.flush(write_back=False)
        assert cache.traffic[0].left_dirty_bytes == 1
    cache.run(Events.of(event(line) for line in range(1, 6)))
    assert cache.traffic[0].write_bytes == int(kept)


@pytest.mark.parametrize("write_back", [True, False])
def test_a_flush_writes_dirty_lines_or_counts_them_as_left(write_back: bool) -> None:
    cache = replay([event(0, WRITE, mask=3), event(1)], 4)
    cache.flush(write_back=write_back)
    traffic = cache.traffic[0]
    assert (traffic.write_bytes, traffic.left_dirty_bytes) == ((2, 0) if write_back else (0, 2))
    assert cache.dirty_bytes == [0]
