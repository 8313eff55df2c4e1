"""Model the L1 of one SM by reuse distances.

An access hits if few enough other lines were used since the last access to its line. Lines are spread over sets by a hash, so
that the least distance of a miss varies from line to line: it is taken as normally distributed about the capacity.

Source of the model: Smith 1978, a comparative study of set associative memory mapping algorithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, sqrt

import numpy as np
from numpy.typing import NDArray

from ioaware.machine.model import SECTOR_BYTES, L1Model
from ioaware.simulation.compiled import compiled

MAX_CHUNK_SECTORS, LINE_SECTORS = 64, 4
LINE_BYTES = LINE_SECTORS * SECTOR_BYTES
FIRST_OF_LINES = np.uint64(sum(1 << sector for sector in range(0, MAX_CHUNK_SECTORS, LINE_SECTORS)))
"""Mask with the first sector of every line of 128 bytes in a chunk."""
NEVER = -1
Numbers = NDArray[np.int64]
Shares = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class L1Shape:
    """Capacity of one SM's L1 in bytes, and how it replaces lines."""

    capacity_bytes: int
    model: L1Model

    def hit_shares(self, distances: Numbers) -> Shares:
        """Return the probability of a hit by reuse distance in lines.

        It is 0 for an access without an earlier one, whose distance is `NEVER`.
        """
        lines = self.capacity_bytes / LINE_BYTES
        if not lines:
            return np.zeros(distances.size)
        different, where = np.unique(distances, return_inverse=True)
        mean, deviation = self.model.reach * lines, sqrt(self.model.sets * lines)
        shares = [0.0 if one == NEVER else 0.5 * (1 + erf((mean - one) / (deviation * sqrt(2)))) for one in different.tolist()]
        return np.array(shares)[where]


def lines_of(masks: NDArray[np.uint64]) -> Numbers:
    """Return how many lines of 128 bytes the sectors of each mask of a chunk lie in."""
    one, two, three = (masks >> np.uint64(sectors) for sectors in (1, 2, 3))
    return np.bitwise_count((masks | one | two | three) & FIRST_OF_LINES).astype(np.int64)


def previous(chunks: Numbers) -> Numbers:
    """Return the position of each access's last one to the same chunk.

    It is `NEVER` where there is none.
    """
    order = np.argsort(chunks, kind="stable")
    found = np.full(chunks.size, NEVER, dtype=np.int64)
    same = chunks[order][1:] == chunks[order][:-1]
    found[order[1:][same]] = order[:-1][same]
    return found


def reuse_distances(before: Numbers, lines: Numbers) -> Numbers:
    """Return the lines of the distinct chunks accessed since the access `before` each.

    `before` is what `previous` returns, `lines` the lines of each access. The distance does not include the chunk itself. It is
    `NEVER` where there is no access before. Cost: n log(n).
    """
    through, first = np.cumsum(lines), np.zeros(before.size, dtype=np.int64)
    _sum_lines_of_first(before, lines, np.zeros(before.size + 1, dtype=np.int64), first)
    return np.where(before == NEVER, NEVER, first - through[np.maximum(before, 0)])


@compiled
def _sum_lines_of_first(before: Numbers, lines: Numbers, tree: Numbers, found: Numbers) -> None:
    """Add the lines of the accesses so far whose own `before` is not after.

    These are the first ones to their chunks since then. They are summed in a tree over `before` (Fenwick 1994). `tree` and
    `found` are zeros.
    """
    for at in range(before.size):
        node = before[at] + 2  # nodes begin at 1, as does NEVER
        while node > 0:
            found[at] += tree[node]
            node -= node & -node
        node = before[at] + 2
        while node < tree.size:
            tree[node] += lines[at]
            node += node & -node
