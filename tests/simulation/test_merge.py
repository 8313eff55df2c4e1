"""Merging of touches into events.

Equal lines within a quantum are merged, others are not.
"""

from __future__ import annotations

import numpy as np

from ioaware.simulation.l2.events import READ, WRITE, Event, Events
from ioaware.simulation.merge import AccessTouches, merge_events
from ioaware.simulation.stream_lines import LineTouches

WAVE = np.array([0, 0, 1, 1])


def touch(
    time: float, line: int, program: int, *, access: int = 0, mask: int = 1, side: int = 1, kind: int = READ
) -> AccessTouches:
    columns = (np.array([line]), np.array([mask], dtype=np.uint64), np.array([side]), np.array([program]))
    return AccessTouches(LineTouches(np.array([time]), *columns), access, 7, kind)


def rows(events: Events) -> list[Event]:
    columns = (events.lines[events.line], *events[1:7])
    return [Event(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def test_programs_that_touch_a_unit_within_a_quantum_are_one_event() -> None:
    parts = [touch(0.0, 5, 0, mask=1), touch(0.4, 5, 1, mask=2, side=2), touch(0.6, 5, 2, mask=2)]
    assert rows(merge_events(parts, 1.0, WAVE)) == [Event(5, 3, 2, READ, 7, 0, 0)]


def test_later_touches_and_other_units_stay_apart_in_time() -> None:
    parts = [touch(2.5, 1, 3), touch(0.5, 2, 0), touch(1.5, 1, 1)]
    assert [(one.line, one.program, one.wave) for one in rows(merge_events(parts, 1.0, WAVE))] == [
        (2, 0, 0),
        (1, 1, 0),
        (1, 3, 1),
    ]


def test_two_accesses_of_one_program_are_two_events() -> None:
    """A second sweep over the same memory may miss what the first one read."""
    parts = [touch(0.0, 1, 0, access=0), touch(0.9, 1, 0, access=1), touch(0.95, 1, 0, access=2, kind=WRITE)]
    assert [one.kind for one in rows(merge_events(parts, 1.0, WAVE))] == [READ, READ, WRITE]


def test_without_quantum_equal_times_alone_are_merged() -> None:
    parts = [touch(0.0, 1, 0), touch(0.0, 1, 1, side=2), touch(1e-9, 1, 2)]
    assert [(one.left, one.right) for one in rows(merge_events(parts, 0.0, WAVE))] == [(1, 1), (1, 0)]


def test_a_launch_without_accesses_has_no_events() -> None:
    assert rows(merge_events([], 1.0, WAVE)) == []
