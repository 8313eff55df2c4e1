"""Spread the lines of a replay over the sets of a set-associative cache.

A hash spreads each piece of memory as large as one way evenly: neighbouring lines are in different sets. Lines that are apart,
such as a column of tiles, meet in the same set by chance. So a set may be full before the cache is. Lines of the model are
larger than those of a GPU; a set of the model has as many ways of such lines, and there are fewer sets. Their number is prime,
so that no distance between lines brings them to a few sets only.

Source of the even spread: memory that is swept as a whole fits until it is as large as the cache, in
`ioaware/recorded/calibration`. Columns of lines of a matrix fit less, in `ioaware/recorded/l2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np

from ioaware.simulation.addresses.address_blocks import Blocks, Numbers
from ioaware.simulation.sampling import Sample

MIXERS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
"""Constants of the SplitMix64 hash, Steele, Lea and Flood 2014."""

FEWEST_SETS = 32
"""Fewer sets are one set.

With lines so large, what meets in a set is chance that a GPU's thousands of sets do not have.
"""

LARGE = 8
"""A storage is large if the largest is at most so many times larger."""


@dataclass(frozen=True, slots=True)
class CacheSets:
    """Sets of one partition: how many, and the lines of each.

    `first_lines` are the first lines of the storages, and of each storage one of `every_of` lines is replayed.
    """

    count: int
    first_lines: tuple[int, ...] = ()
    every_of: tuple[int, ...] = ()

    def of(self, lines: Numbers) -> Numbers:
        """Return the sets of lines."""
        if self.count <= 1:
            return np.zeros_like(lines)
        storage = np.searchsorted(self.first_lines, lines, side="right") - 1
        number = (lines - np.array(self.first_lines)[storage]) // np.array(self.every_of)[storage]
        way, place = np.divmod(number, self.count)
        mixed = _mixed(way * len(self.first_lines) + storage)
        return (place * (1 + mixed % (self.count - 1)) + mixed) % self.count


def choose_sets(layouts: Sequence[Blocks], sizes: Sequence[int], sample: Sample, capacity_bytes: float, ways: int) -> CacheSets:
    """Return the sets of a cache, of so many lines each; 0 ways are one set.

    `capacity_bytes` is that of the cache that the sample is replayed in. A set holds so many of the largest lines that large
    storages have.
    """
    if not ways or not layouts:
        return CacheSets(0)
    large = [at for at, size in enumerate(sizes) if size * LARGE >= max(sizes)]
    line_bytes = max(layouts[at].line_bytes * sample.every_at(at) / sample.every for at in large)
    every_of = tuple(sample.every_at(at) for at in range(len(layouts)))
    if capacity_bytes < FEWEST_SETS * ways * line_bytes:
        return CacheSets(0)
    count = _prime_up_to(round(capacity_bytes / (ways * line_bytes)))  # not above it: a set holds whole lines
    return CacheSets(count, tuple(one.first_line for one in layouts), every_of)


def _prime_up_to(number: int) -> int:
    """Return the largest prime up to a number; 1 for numbers below 2."""
    while number > 1 and any(number % factor == 0 for factor in range(2, isqrt(number) + 1)):
        number -= 1
    return max(1, number)


def _mixed(numbers: Numbers) -> Numbers:
    """Return a hash of 31 bits of each number."""
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * MIXERS[0]
    return ((mixed ^ mixed >> np.uint64(31)) * MIXERS[1] >> np.uint64(33)).astype(np.int64)
