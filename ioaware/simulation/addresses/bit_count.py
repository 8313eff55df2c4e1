"""Count bits in compiled code, which lacks `np.bitwise_count`."""

from __future__ import annotations

import numpy as np

from ioaware.simulation.compiled import inlined


@inlined
def bit_count(mask: np.uint64) -> int:
    """Return how many bits are set.

    They are counted by two, four and eight at a time (Warren, Hacker's Delight, section 5-1).
    """
    pairs = mask - (mask >> np.uint64(1) & np.uint64(0x5555555555555555))
    fours = (pairs & np.uint64(0x3333333333333333)) + (pairs >> np.uint64(2) & np.uint64(0x3333333333333333))
    eights = fours + (fours >> np.uint64(4)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int(eights * np.uint64(0x0101010101010101) >> np.uint64(56))
