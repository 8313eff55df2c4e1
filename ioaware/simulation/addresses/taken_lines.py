"""Find the lines of ranges of blocks, or those of a sample of the lines."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ioaware.simulation.compiled import compiled, inlined

Numbers = NDArray[np.int64]
Masks = NDArray[np.uint64]
MIX = np.uint64(0x9E3779B97F4A7C15)
ALL_BLOCKS = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(slots=True)
class Taken:
    """Lines of a storage that are replayed: one of `every`, by a hash.

    Where `seen` has lines, from `first_line` on, accesses to lines are counted, and those lines are marked.
    """

    every: int
    first_line: int = 0
    seen: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    accesses: int = 0


def is_taken(line: Numbers, every: int) -> NDArray[np.bool_]:
    """Return whether lines are in the sample: one of `every`, by a hash."""
    group = line // every
    mixed = (group.astype(np.uint64) + np.uint64(1)) * MIX >> np.uint64(32)
    return line - group * every == (mixed % np.uint64(every)).astype(np.int64)


def find_lines(low: Numbers, high: Numbers, per_line: int, first_line: int, taken: Taken) -> tuple[Numbers, Numbers, Masks]:
    """Return (index of the range, line, mask of blocks) of the ranges.

    There is an entry for every taken line of every range of blocks, `per_line` in a line. `first_line` is that of block 0.
    """
    low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
    sample, seen = (taken.every, first_line, per_line, taken.first_line), taken.seen
    nothing = np.empty(0, dtype=np.int64)
    size, accesses = _find(low, high, sample, seen, nothing, nothing, np.empty(0, dtype=np.uint64))
    which, line, mask = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size, dtype=np.uint64)
    if size:
        _find(low, high, sample, seen, which, line, mask)
    taken.accesses += accesses
    return which, line, mask


@compiled
def _find(
    low: Numbers,
    high: Numbers,
    sample: tuple[int, int, int, int],
    seen: NDArray[np.bool_],
    which: Numbers,
    line: Numbers,
    mask: Masks,
) -> tuple[int, int]:
    """Return how many lines are taken, and how many there are.

    They are written to `which`, `line` and `mask`, unless these are empty.
    """
    every, first_line, per_line, first_seen = sample
    found = accesses = 0
    for at in range(low.size):
        if high[at] <= low[at]:
            continue
        for number in range(low[at] // per_line, (high[at] - 1) // per_line + 1):
            name = number + first_line
            accesses += 1
            if seen.size:
                seen[min(max(name - first_seen, 0), seen.size - 1)] = True
            if every > 1 and not _is_taken(name, every):
                continue
            if which.size:
                begin, end = max(low[at] - number * per_line, 0), min(high[at] - number * per_line, per_line)
                which[found], line[found] = at, name
                mask[found] = ALL_BLOCKS >> np.uint64(64 - (end - begin)) << np.uint64(begin)
            found += 1
    return found, accesses


@inlined
def _is_taken(line: int, every: int) -> bool:
    """Return what `is_taken` returns for a line."""
    group = line // every
    mixed = (np.uint64(group) + np.uint64(1)) * MIX >> np.uint64(32)
    return line - group * every == np.int64(mixed % np.uint64(every))
