"""Touches of units by single programs, put together into events: what happens at about the same time to one unit is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ioaware.simulation.cache import Event
from ioaware.simulation.streams import Numbers, Raw

NOTHING = np.uint64(0)
ROUNDING = 1e-6
"""Of a quantum: sums of floats that are a whole number of them may fall short."""


@dataclass(frozen=True, slots=True)
class Tagged:
    """Touches of one access, by its number: which tensor, and whether it reads, writes or adds."""

    raw: Raw
    access: int
    tensor: int
    kind: int


def events(parts: Sequence[Tagged], quantum: float, wave: Numbers) -> Iterator[Event]:
    """In time, those of one access within one `quantum` of time together. `wave` is each program's.

    Accesses stay apart: a program that sweeps memory twice does so by two of them, and the second sweep is another event.
    """
    if not parts:
        return
    time = np.concatenate([part.raw.time for part in parts])
    unit = np.concatenate([part.raw.unit for part in parts])
    mask = np.concatenate([part.raw.mask for part in parts])
    sides = np.concatenate([part.raw.sides for part in parts])
    program = np.concatenate([part.raw.program for part in parts])
    access = np.repeat([part.access for part in parts], [part.raw.time.size for part in parts])
    kind = np.repeat([part.kind for part in parts], [part.raw.time.size for part in parts])
    tensor = np.repeat([part.tensor for part in parts], [part.raw.time.size for part in parts])
    if not time.size:
        return
    epoch = np.floor(time / quantum + ROUNDING).astype(np.int64) if quantum > 0 else np.unique(time, return_inverse=True)[1]
    order = np.lexsort((program, time, access, unit, epoch))
    epoch, unit, access, kind = epoch[order], unit[order], access[order], kind[order]
    new = np.ones(order.size, dtype=bool)
    new[1:] = (epoch[1:] != epoch[:-1]) | (unit[1:] != unit[:-1]) | (access[1:] != access[:-1])
    first = np.flatnonzero(new)
    mask, sides = mask[order], sides[order]
    left, right = (np.bitwise_or.reduceat(np.where(sides & side, mask, NOTHING), first) for side in (1, 2))
    time, tensor, program = time[order][first], tensor[order][first], program[order][first]
    by_time = np.argsort(time, kind="stable")
    columns = (unit[first], left, right, kind[first], tensor, wave[program], program)
    yield from map(Event._make, zip(*(column[by_time].tolist() for column in columns), strict=True))
