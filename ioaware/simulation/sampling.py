"""Replay some lines for all, in a cache that is smaller by as much.

A line of the model hits by how many other bytes were accessed since: a sample of the lines sees the same share of a cache that
has the same share of the capacity. One of `every` neighbouring lines is taken, at a place that a hash decides.

Source: Waldspurger, Park, Garthwaite, Ahmad 2015, Efficient MRC construction with SHARDS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ioaware.simulation.address_blocks import Blocks
from ioaware.simulation.merge import AccessTouches
from ioaware.simulation.streams import LineTouches, Numbers

MAX_EVENTS = 300_000
"""Most events of a replay, about 1.5 s of a core."""
PILOT = 16
"""One of so many lines is merged to find how many events all lines have."""
MIN_LINES = 8
"""Lines of a tensor in a sample; a tensor with fewer is taken whole."""
MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Sample:
    """One of `every` lines; `whole` are the storages all of whose lines are taken.

    `scale` is the accessed lines of each storage over those in the sample.
    """

    every: int = 1
    whole: frozenset[int] = frozenset()
    scale: tuple[float, ...] = field(default=())

    def has(self, line: Numbers) -> NDArray[np.bool_]:
        """Return whether a line is in the sample."""
        group = line // self.every
        mixed = (group.astype(np.uint64) + np.uint64(1)) * MIX >> np.uint64(32)
        return line - group * self.every == (mixed % np.uint64(self.every)).astype(np.int64)

    def of(self, parts: Sequence[AccessTouches]) -> list[AccessTouches]:
        """Return the accesses to lines of the sample."""
        if self.every == 1:
            return list(parts)
        return [one if one.tensor in self.whole else _where(one, self.has(one.touches.line)) for one in parts]

    def block_bytes(self, layouts: Sequence[Blocks]) -> list[float]:
        """Return the bytes of a block of each storage in the smaller cache."""
        return [one.bytes / (self.every if at in self.whole else 1) for at, one in enumerate(layouts)]

    def scale_of(self, storage: int) -> float:
        """Return the factor from bytes of the sample to all bytes of a storage."""
        return self.scale[storage] if self.scale else 1.0


def _where(one: AccessTouches, kept: NDArray[np.bool_]) -> AccessTouches:
    all_ = one.touches
    taken = LineTouches(all_.time[kept], all_.line[kept], all_.mask[kept], all_.partitions[kept], all_.program[kept])
    return replace(one, touches=taken)


def choose_sample(launches: Sequence[Sequence[AccessTouches]], events_of_pilot: int | None, storages: int) -> Sample:
    """Return the sample whose replay has about `MAX_EVENTS` events.

    `events_of_pilot` are those of one of `PILOT` lines; None where all accesses are few enough.
    """
    every = 1 if events_of_pilot is None else -(-events_of_pilot * PILOT // MAX_EVENTS)
    if every <= 1:
        return Sample()
    accessed = [np.zeros(0, dtype=np.int64)] * storages
    for parts in launches:
        for one in parts:
            accessed[one.tensor] = np.union1d(accessed[one.tensor], one.touches.line)
    whole = frozenset(at for at, lines in enumerate(accessed) if lines.size < MIN_LINES * every)
    sample = Sample(every, whole)
    counts = [(lines.size, int(np.count_nonzero(sample.has(lines)))) for lines in accessed]
    return replace(
        sample,
        scale=tuple(float(every) if at in whole else all_lines / taken for at, (all_lines, taken) in enumerate(counts)),
    )
