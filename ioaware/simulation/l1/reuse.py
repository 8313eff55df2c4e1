"""Find how long ago each access of an SM had its lines in the L1, as machine code."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ioaware.simulation.addresses.bit_count import bit_count
from ioaware.simulation.compiled import compiled

NEVER = -1
"""Distance of an access without an earlier one."""
Numbers = NDArray[np.int64]
Masks = NDArray[np.uint64]


def reuse(chunks: Numbers, masks: Masks, lines: Numbers, edges: Numbers) -> tuple[Numbers, Numbers]:
    """Return each access's reuse distance and sectors that were accessed before.

    The distance is the lines of the distinct chunks accessed since the last access to its chunk, or `NEVER`. `masks` are the
    sectors of each access in its chunk, and `lines` how many lines they are in. Each two neighbours in `edges` begin and end
    the accesses of an SM. Cost: n log(n).
    """
    names, numbers = np.unique(chunks, return_inverse=True)
    distances, known = np.full(chunks.size, NEVER, dtype=np.int64), np.zeros(chunks.size, dtype=np.int64)
    last, sectors = np.empty(names.size, dtype=np.int64), np.empty(names.size, dtype=np.uint64)
    through, tree = (np.empty(int(np.diff(edges).max(initial=0)) + 1, dtype=np.int64) for _ in range(2))
    for at in range(edges.size - 1):
        one = slice(edges[at], edges[at + 1])
        last[:], sectors[:], tree[:] = NEVER, 0, 0
        _sweep(numbers[one], masks[one], lines[one], last, sectors, through, tree, distances[one], known[one])
    return distances, known


@compiled
def _sweep(
    chunks: Numbers,
    masks: Masks,
    lines: Numbers,
    last: Numbers,
    sectors: Masks,
    through: Numbers,
    tree: Numbers,
    distances: Numbers,
    known: Numbers,
) -> None:
    """Find distances and known sectors of the accesses of an SM.

    `last` and `sectors` are of each chunk: its last access, and what was accessed of it. `through` are the lines of all
    accesses up to each. The first accesses to their chunks since an earlier access are those whose own earlier one is not
    after it. Their lines are summed in a tree over the earlier ones (Fenwick 1994).
    """
    total, size = 0, chunks.size
    for at in range(size):
        chunk, mask = chunks[at], masks[at]
        before = last[chunk]
        known[at] = bit_count(sectors[chunk] & mask)
        if before != NEVER:
            node, found = before + 2, -through[before]  # nodes begin at 1, as does NEVER
            while node > 0:
                found += tree[node]
                node -= node & -node
            distances[at] = found
        node = before + 2
        while node <= size:
            tree[node] += lines[at]
            node += node & -node
        total += lines[at]
        through[at], last[chunk], sectors[chunk] = total, at, sectors[chunk] | mask
