"""Count the 32-byte sectors that one access touches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ioaware.machine.model import SECTOR_BYTES

_SHIFT = SECTOR_BYTES.bit_length() - 1

Addresses = NDArray[np.uint64]
Mask = NDArray[np.bool_]


def count_sectors(addresses: Addresses, mask: Mask, width: int) -> int:
    """Return the distinct sectors that the active lanes of one access touch.

    `addresses`, in bytes, and `mask` have the same shape, `width` is the bytes of an element. Lanes that share a sector
    count it once, as a coalesced request does. Addresses that ascend along the rows or the columns of a tile are counted in
    one pass; others are sorted.
    """
    active = addresses[mask]
    if active.size == 0:
        return 0
    sectors = active >> np.uint64(_SHIFT)
    if (active & np.uint64(width - 1)).any():  # an element that is not aligned to its width may straddle two sectors
        last = (active + np.uint64(width - 1)) >> np.uint64(_SHIFT)
        return int(np.unique(np.concatenate((sectors, last))).size)
    ascending = _count_ascending(sectors)
    if ascending is None and addresses.ndim > 1:
        ascending = _count_ascending(addresses.T[mask.T] >> np.uint64(_SHIFT))
    return int(np.unique(sectors).size) if ascending is None else ascending


def _count_ascending(sectors: Addresses) -> int | None:
    """Return the number of distinct values if they ascend, else None."""
    before, after = sectors[:-1], sectors[1:]
    if (before > after).any():
        return None
    return 1 + int(np.count_nonzero(before != after))
