"""Merge accesses of programs to one line at about the same time.

They become one event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ioaware.simulation.cache import Event
from ioaware.simulation.streams import LineTouches, Numbers

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


def merge_events(parts: Sequence[AccessTouches], quantum: float, wave: Numbers) -> Iterator[Event]:
    """Yield events in time order.

    Accesses by one instruction to one line within `quantum` time units are one event.

    `wave` holds the wave of each program. Different instructions stay apart: a program that sweeps memory twice does so by two
    of them, and the second sweep is another event.
    """
    if not parts:
        return
    time = np.concatenate([part.touches.time for part in parts])
    line = np.concatenate([part.touches.line for part in parts])
    mask = np.concatenate([part.touches.mask for part in parts])
    partitions = np.concatenate([part.touches.partitions for part in parts])
    program = np.concatenate([part.touches.program for part in parts])
    access = np.repeat([part.access for part in parts], [part.touches.time.size for part in parts])
    kind = np.repeat([part.kind for part in parts], [part.touches.time.size for part in parts])
    tensor = np.repeat([part.tensor for part in parts], [part.touches.time.size for part in parts])
    if not time.size:
        return
    epoch = np.floor(time / quantum + ROUNDING).astype(np.int64) if quantum > 0 else np.unique(time, return_inverse=True)[1]
    order = np.lexsort((program, time, access, line, epoch))
    epoch, line, access, kind = epoch[order], line[order], access[order], kind[order]
    new = np.ones(order.size, dtype=bool)
    new[1:] = (epoch[1:] != epoch[:-1]) | (line[1:] != line[:-1]) | (access[1:] != access[:-1])
    first = np.flatnonzero(new)
    mask, partitions = mask[order], partitions[order]
    left, right = (np.bitwise_or.reduceat(np.where(partitions & side, mask, NO_BLOCKS), first) for side in (1, 2))
    time, tensor, program = time[order][first], tensor[order][first], program[order][first]
    by_time = np.argsort(time, kind="stable")
    columns = (line[first], left, right, kind[first], tensor, wave[program], program)
    yield from map(Event._make, zip(*(column[by_time].tolist() for column in columns), strict=True))
