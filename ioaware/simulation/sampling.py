"""Replay some lines for all, in a cache that is smaller by as much.

A line of the model hits by how many other bytes were accessed since: a sample of the lines sees the same share of a cache that
has the same share of the capacity. One of `every` neighbouring lines is taken, at a place that a hash decides.

Source: Waldspurger, Park, Garthwaite, Ahmad 2015, Efficient MRC construction with SHARDS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ioaware.simulation.addresses.address_blocks import SPARE_LINES, Blocks, Numbers
from ioaware.simulation.addresses.taken_lines import Taken, is_taken

MAX_EVENTS = 300_000
"""Most events of a replay, about 1.5 s of a core."""
PILOT = 16
"""One of so many lines is merged to find how many events all lines have."""
MIN_LINES = 8
"""Lines of a tensor in a sample; a tensor with fewer is taken whole."""
FEWEST_LINES = 32
"""Lines left of such a tensor where all of its lines are accessed too often."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One of `every` lines, in a cache that is smaller by as much.

    Of a storage with few lines one of fewer is taken: `every_of` says of how many, for each storage; empty, it is `every`.
    `scale` is the bytes of each storage over those in the sample.
    """

    every: int = 1
    every_of: tuple[int, ...] = ()
    scale: tuple[float, ...] = ()

    def lines(self, storage: int) -> Taken | None:
        """Return which lines of a storage are in the sample; None where all are."""
        every = self.every_at(storage)
        return Taken(every) if every > 1 else None

    def block_bytes(self, layouts: Sequence[Blocks]) -> list[float]:
        """Return the bytes of a block of each storage in the smaller cache."""
        return [one.bytes * self.every_at(at) / self.every for at, one in enumerate(layouts)]

    def scale_of(self, storage: int) -> float:
        """Return the factor from bytes of the sample to all bytes of a storage."""
        return self.scale[storage] if self.scale else 1.0

    def every_at(self, storage: int) -> int:
        """Return of how many lines of a storage one is in the sample."""
        return self.every_of[storage] if self.every_of else self.every


class Census:
    """Lines that are accessed, by storage. A pilot takes one of `PILOT`."""

    def __init__(self, layouts: Sequence[Blocks], sizes: Sequence[int]) -> None:
        """Begin with none; `sizes` are the bytes of the storages."""
        self._taken = [
            Taken(PILOT, one.first_line, np.zeros(-(-size // one.line_bytes) + SPARE_LINES, dtype=np.bool_))
            for one, size in zip(layouts, sizes, strict=True)
        ]

    def of(self, storage: int) -> Taken:
        """Return which lines a pilot takes; those that it is asked for are counted."""
        return self._taken[storage]

    @property
    def accesses(self) -> list[int]:
        """Accesses to lines of each storage."""
        return [one.accesses for one in self._taken]

    @property
    def lines(self) -> list[Numbers]:
        """Distinct lines of each storage that were accessed."""
        return [np.flatnonzero(one.seen) + one.first_line for one in self._taken]


def choose_sample(census: Census, events_of_pilot: int) -> Sample:
    """Return the sample whose replay has about `MAX_EVENTS` events.

    Storages with few lines may add as many again.
    """
    every = -(-events_of_pilot * PILOT // MAX_EVENTS) if sum(census.accesses) > MAX_EVENTS else 1
    if every <= 1:
        return Sample()
    accessed = census.lines
    accesses = census.accesses
    few = {at for at, lines in enumerate(accessed) if lines.size < MIN_LINES * every}
    thinned = -(-sum(accesses[at] for at in few) // MAX_EVENTS)
    every_of = tuple(
        max(1, min(every, thinned, lines.size // FEWEST_LINES)) if at in few else every for at, lines in enumerate(accessed)
    )
    taken = [int(np.count_nonzero(is_taken(lines, one))) for lines, one in zip(accessed, every_of, strict=True)]
    counts = zip(accessed, every_of, taken, strict=True)
    scale = tuple(lines.size * every / (kept * one) if kept else float(every) for lines, one, kept in counts)
    return Sample(every, every_of, scale)
