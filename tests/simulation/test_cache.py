"""The cache model against a brute-force one, and the laws that any cache obeys."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.simulation.cache import ATOMIC, L2, READ, WRITE, CacheShape, Event

LARGE = 1e12


def event(unit: int, kind: int = READ, mask: int = 1, sides: int = 1, wave: int = 0, program: int = 0) -> Event:
    return Event(unit, mask if sides & 1 else 0, mask if sides & 2 else 0, kind, 0, wave, program)


def replay(events: Sequence[Event], capacity: float, partitions: int = 1, block_bytes: float = 1) -> L2:
    cache = L2(CacheShape(capacity, 1 if partitions == 1 else 2), [block_bytes])
    cache.run(events)
    return cache


class BruteForce:
    """A list of units, the last used last; written units are written back when they leave."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.held, self.dirty = capacity, list[int](), set[int]()
        self.reads = self.writes = 0

    def run(self, events: Sequence[Event]) -> None:
        for one in events:
            if one.unit in self.held:
                self.held.remove(one.unit)
            elif one.kind != WRITE:
                self.reads += 1
            self.held.append(one.unit)
            if one.kind != READ:
                self.dirty.add(one.unit)
            while len(self.held) > self.capacity:
                gone = self.held.pop(0)
                if gone in self.dirty:
                    self.dirty.remove(gone)
                    self.writes += 1


STREAMS = st.lists(st.builds(event, st.integers(0, 12), st.sampled_from([READ, WRITE, ATOMIC])), max_size=120)
READS = st.lists(
    st.builds(event, st.integers(0, 12), mask=st.integers(1, 7), sides=st.integers(1, 3), wave=st.integers(0, 2)), max_size=120
)


@given(STREAMS, st.integers(1, 14))
@settings(max_examples=200, deadline=None)
def test_equals_a_brute_force_lru(events: list[Event], capacity: int) -> None:
    expected = BruteForce(capacity)
    expected.run(events)
    found = replay(events, capacity)
    assert (found.moved[0].read_bytes, found.moved[0].write_bytes) == (expected.reads, expected.writes)
    assert sum(found.dirty_bytes) == len(expected.dirty)


@given(READS, st.sampled_from([1, 2]))
@settings(max_examples=100, deadline=None)
def test_an_infinite_cache_reads_each_block_once(events: list[Event], partitions: int) -> None:
    distinct: dict[int, int] = {}
    for one in events:
        distinct[one.unit] = distinct.get(one.unit, 0) | one.left | one.right
    moved = replay(events, LARGE, partitions).moved[0]
    assert moved.read_bytes == moved.first_bytes == sum(mask.bit_count() for mask in distinct.values())


@given(READS)
@settings(max_examples=100, deadline=None)
def test_a_cache_of_nothing_reads_all_that_is_requested(events: list[Event]) -> None:
    moved = replay(events, 0).moved[0]
    assert moved.read_bytes == sum((one.left | one.right).bit_count() for one in events)


@given(READS, st.sampled_from([1, 2]), st.integers(0, 40))
@settings(max_examples=150, deadline=None)
def test_reads_lie_between_distinct_and_requested_and_add_up(events: list[Event], partitions: int, capacity: int) -> None:
    moved = replay(events, capacity, partitions).moved[0]
    requested = sum(
        one.left.bit_count() + one.right.bit_count() if partitions == 2 else (one.left | one.right).bit_count()
        for one in events
    )
    assert moved.first_bytes <= moved.read_bytes <= requested
    assert moved.read_bytes == moved.first_bytes + sum(moved.excess_bytes.values())


@given(STREAMS, st.integers(1, 12))
@settings(max_examples=150, deadline=None)
def test_a_larger_lru_cache_never_reads_more(events: list[Event], capacity: int) -> None:
    """The stack property: what a smaller LRU cache of one partition holds, a larger one holds too."""
    assert replay(events, capacity + 1).moved[0].read_bytes <= replay(events, capacity).moved[0].read_bytes


def test_what_both_sides_read_is_held_twice() -> None:
    """10 units of 1 byte, read over and over: 15 bytes hold them for one side, 20 for both."""
    sweep = [event(unit) for unit in range(10)] * 3
    assert replay(sweep, 15, 2).moved[0].read_bytes == 10
    assert replay(sweep, 9, 2).moved[0].read_bytes > 15
    both = [one._replace(right=one.left) for one in sweep]
    assert replay(both, 20, 2).moved[0].read_bytes == 10
    assert replay(both, 19, 2).moved[0].read_bytes > 10
    assert replay(both, 14, 2).moved[0].read_bytes == 30


def test_writes_are_held_once_and_written_when_too_many_are_dirty() -> None:
    writes = [event(unit, WRITE) for unit in range(10)]
    assert replay(writes, 10, 2).moved[0].write_bytes == 0
    cache = L2(CacheShape(10, 2, dirty_bytes=4), [1.0])
    cache.run(writes)
    assert cache.moved[0].write_bytes == 6
    assert sum(cache.dirty_bytes) == 4


def test_a_write_takes_the_copies_away() -> None:
    """The other side reads the new value from its home, so that a copy has to be made again, without HBM."""
    cache = replay([event(0, sides=3), event(0, WRITE), event(0, sides=3)], 8, 2)
    assert cache.moved[0].read_bytes == 1


def test_reasons() -> None:
    small = 1
    waves = [event(0, wave=0), event(1, wave=0), event(0, wave=1, program=9)]
    assert replay(waves, small).moved[0].excess_bytes["wave"] == 1
    again = [event(0), event(1), event(0)]
    assert replay(again, small).moved[0].excess_bytes["capacity"] == 1
    late = [event(0), event(1), event(0, program=5)]
    assert replay(late, small).moved[0].excess_bytes["skew"] == 1


@pytest.mark.parametrize("kept", [True, False])
def test_dirty_lines_go_into_the_next_launch_unless_the_cache_is_emptied(kept: bool) -> None:
    cache = replay([event(0, WRITE)], 4)
    if not kept:
        cache.forget(write_back=False)
        assert cache.moved[0].left_dirty_bytes == 1
    cache.run([event(unit) for unit in range(1, 6)])
    assert cache.moved[0].write_bytes == int(kept)
