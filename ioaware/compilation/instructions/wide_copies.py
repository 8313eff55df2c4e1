"""Find copies past the L1 that fetch sectors more than once.

The formulas count each sector of a load once. A copy of 16 bytes a lane bypasses the L1, so no later instruction finds there
what an earlier one fetched. Where a thread holds 32 adjacent bytes, two instructions copy the halves of each sector, and both
fetch it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ioaware.compilation.compiled_accesses import Access, laid_out
from ioaware.compilation.instructions.narrow_stores import source_line, tile_addresses
from ioaware.compilation.layouts import Indices, distinct_in_rows, owners, requests
from ioaware.machine.model import SECTOR_BYTES

LINE_BYTES, COPIED_BYTES = 128, 16
"""Of an L1 line, and of what a lane copies past the L1."""


@dataclass(frozen=True, slots=True)
class WideCopy:
    """Copy of elements at a line of the source.

    `fetches` says how often it fetches each sector of a tile whose rows begin at sectors.
    """

    line: str
    element_bytes: int
    fetches: float


def wide_copies(ttgir: str, ptx: str) -> tuple[WideCopy, ...]:
    """Return the copies of a compiled kernel that fetch a sector more than once.

    The tile is taken as rows of adjacent elements. None are found where a layout is unknown.
    """
    found: dict[tuple[str, int], float] = {}
    for one in laid_out(ttgir, ptx, "read") or ():
        if one.past_l1:
            key = source_line(one.frames), one.element_bytes
            found[key] = max(found.get(key, 1.0), _fetches(one))
    return tuple(WideCopy(*key, fetches) for key, fetches in found.items() if fetches > 1)


def _fetches(copy: Access) -> float:
    """Return how often the instructions of a copy fetch a sector of a whole tile."""
    if copy.layout is None:
        return 1
    addresses = tile_addresses(copy, 0)
    lanes = addresses.ravel()[requests(copy.layout, copy.shape, copy.vector, copy.once)][:, :: copy.vector]
    requested, again = copied_sectors(np.where(owners(copy.layout, copy.shape), lanes, -1))
    return (requested + again) / np.unique(addresses // SECTOR_BYTES).size


def copied_sectors(lanes: Indices) -> tuple[int, int]:
    """Return the requests of copies past the L1, and the sectors fetched beyond them.

    `lanes` [instructions, lanes] has the first byte of each lane's 16, negative where it is masked. Each pair of lanes fetches
    its sectors, whichever other pairs fetch. It requests them, too, but 32 bytes of one line are one request, also where they
    begin in the middle of a sector. Source: scripts/probe_requests.py.
    """
    pairs = lanes.reshape(-1, 2)
    first, second = pairs.T
    across = (first >= 0) & (second == first + COPIED_BYTES) & (first % SECTOR_BYTES > 0)
    again = int(np.count_nonzero(across & (first // LINE_BYTES == second // LINE_BYTES)))
    return distinct_in_rows(np.where(pairs >= 0, pairs // SECTOR_BYTES, -1)).size - again, again
