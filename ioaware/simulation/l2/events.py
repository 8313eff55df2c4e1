"""Accesses that reach the L2, merged into events: one array per column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ioaware.simulation.addresses.address_blocks import Masks, Numbers

READ, WRITE, ATOMIC = 0, 1, 2


class Event(NamedTuple):
    """Merged accesses to one line at one time.

    `left` and `right` are masks of the blocks accessed from each partition; `wave` and `program` are of the first program.
    """

    line: int
    left: int
    right: int
    kind: int
    tensor: int
    wave: int
    program: int


class Events(NamedTuple):
    """Events in order: the fields of `Event`, as arrays.

    `lines` are the distinct lines in order, and `line` holds the places of the events' lines there.
    """

    line: Numbers
    left: Masks
    right: Masks
    kind: Numbers
    tensor: Numbers
    wave: Numbers
    program: Numbers
    lines: Numbers

    @property
    def size(self) -> int:
        """How many events there are."""
        return self.line.size

    @staticmethod
    def at(line: Numbers, left: Masks, right: Masks, kind: Numbers, tensor: Numbers, wave: Numbers, program: Numbers) -> Events:
        """Return events at these lines."""
        lines, place = np.unique(line, return_inverse=True)
        return Events(place, left, right, kind, tensor, wave, program, lines)

    @staticmethod
    def of(events: Iterable[Event]) -> Events:
        """Return events that are given one by one."""
        rows = list(events)
        left, right = (np.array([row[side] for row in rows], dtype=np.uint64) for side in (1, 2))
        line, *others = (np.array([row[at] for row in rows], dtype=np.int64) for at in (0, 3, 4, 5, 6))
        return Events.at(line, left, right, *others)
