"""Merge accesses of programs to one line at about the same time.

They become one event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ioaware.simulation.addresses.row_keys import count_distinct, first_of_groups, packed, sorted_rows
from ioaware.simulation.l2.events import Events
from ioaware.simulation.stream_lines import LineTouches
from ioaware.simulation.streams import Numbers

NO_BLOCKS = np.uint64(0)
ROUNDING = 1e-6
"""Share of a quantum.

Sums of floats that are a whole number of quanta may fall short.
"""


@dataclass(frozen=True, slots=True)
class AccessTouches:
    """Line accesses of one access, by its number.

    They name the tensor, and whether it reads, writes or adds.
    """

    touches: LineTouches
    access: int
    tensor: int
    kind: int


def merge_events(parts: Sequence[AccessTouches], quantum: float, wave: Numbers) -> Events:
    """Return events in time order.

    Accesses by one instruction to one line within `quantum` time units are one event.

    `wave` holds the wave of each program. Different instructions stay apart: a program that sweeps memory twice does so by two
    of them, and the second sweep is another event.
    """
    if not sum(part.touches.time.size for part in parts):
        return Events.of(())
    order, first = _groups(parts, quantum)
    time, mask, partitions, program = (
        np.concatenate([getattr(part.touches, name) for part in parts])[order]
        for name in ("time", "mask", "partitions", "program")
    )
    line = np.concatenate([part.touches.line for part in parts])[order]
    kind, tensor = (_of_each(parts, [getattr(part, name) for part in parts])[order] for name in ("kind", "tensor"))
    left, right = (np.bitwise_or.reduceat(np.where(partitions & side, mask, NO_BLOCKS), first) for side in (1, 2))
    by_time = np.argsort(time[first], kind="stable")
    of = first[by_time]
    return Events.at(line[of], left[by_time], right[by_time], kind[of], tensor[of], wave[program[of]], program[of])


def count_events(parts: Sequence[AccessTouches], quantum: float) -> int:
    """Return how many events `merge_events` makes of these accesses."""
    if not sum(part.touches.time.size for part in parts):
        return 0
    keys = _keys(parts, quantum)
    if len(keys) > 1:
        return int(np.count_nonzero(first_of_groups(keys, sorted_rows(keys))))
    return count_distinct(keys[0]) if keys else 1


def _groups(parts: Sequence[AccessTouches], quantum: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the order of the accesses by event, and where each event begins in it."""
    time, program = (np.concatenate([getattr(part.touches, name) for part in parts]) for name in ("time", "program"))
    keys = _keys(parts, quantum)
    order = np.lexsort((program, time, *keys[::-1]))
    return order, np.flatnonzero(first_of_groups(keys, order))


def _keys(parts: Sequence[AccessTouches], quantum: float) -> list[Numbers]:
    """Return keys of the accesses; accesses of one event have the same."""
    time, line = (np.concatenate([getattr(part.touches, name) for part in parts]) for name in ("time", "line"))
    access = _of_each(parts, [part.access for part in parts])
    epoch = np.floor(time / quantum + ROUNDING).astype(np.int64) if quantum > 0 else np.unique(time, return_inverse=True)[1]
    return packed((epoch, line, access))


def _of_each(parts: Sequence[AccessTouches], values: Sequence[int]) -> Numbers:
    """Return a value of each part for each of its accesses."""
    return np.repeat(values, [part.touches.time.size for part in parts])
