"""Arrays that hold the state of a modelled cache.

A line has four entries, `4 * line + entry`. Bit 0 of an entry is its partition; bit 1 marks a copy of the other partition's
line. A list links its entries, the first one to leave in front. Each set has one, the least recently used in front. The dirty
entries are in one more, the last, the one that became dirty first in front.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ioaware.simulation.addresses.address_blocks import Masks, Numbers

Links = NDArray[np.int32]

ENTRIES = 4
"""Entries of a line: home and copy in each partition."""
NONE = -1
RESIDENT, DIRTY, READ_BEFORE, WRITTEN_BEFORE = 0, 1, 2, 3
"""Columns of `masks`."""
PLACE, TENSOR, LAST_WAVE, LAST_PROGRAM = 0, 1, 2, 3
"""Columns of `lines`: set within a partition, tensor, and the last access."""
OLDER, NEWER = 0, 1
"""Columns of `links` and `dirty_links`: an entry's neighbours in its list."""
FIRST, LAST = 0, 1
"""Columns of `ends`: the first entry of a list to leave, and the last."""
READ_BYTES, WRITE_BYTES, FIRST_BYTES, REWRITTEN_BYTES, EXCESS_BYTES = 0, 1, 2, 3, 4
"""Columns of `bytes`.

The excess has one for each of three reasons: wave, capacity, skew.
"""
COLUMNS = 7
MOST_SETS = 2
"""Sets of one line: one in each partition."""


class Shape(NamedTuple):
    """What does not change during a replay.

    `apart` is 2 where each partition has its own sets, otherwise 1. `keep` is 0 where hits do not keep a line.
    """

    partitions: int
    apart: int
    keep: int
    set_bytes: float
    dirty_bytes: float


class State(NamedTuple):
    """Contents of the cache and what was counted.

    Fields of an entry lie side by side in memory.
    """

    # of each entry: masks of blocks, and neighbours in the list of its set and in that of dirty entries
    masks: Masks
    links: Links
    dirty_links: Links
    # of each line
    lines: Numbers
    # of each set, and last of the dirty entries: the ends of the list, and bytes
    ends: Numbers
    used: NDArray[np.float64]
    # sets that are too full, in the order in which they became so
    overfull: Numbers
    # of each tensor
    weight: NDArray[np.float64]
    bytes: NDArray[np.float64]


def empty_state(sets: int, weights: NDArray[np.float64]) -> State:
    """Return a cache of so many sets without lines.

    `weights` are bytes of a block in each partition, by tensor.
    """
    return State(
        masks=np.empty((0, 4), dtype=np.uint64),
        links=np.empty((0, 2), dtype=np.int32),
        dirty_links=np.empty((0, 2), dtype=np.int32),
        lines=np.empty((0, 4), dtype=np.int64),
        ends=np.full((sets + 1, 2), NONE, dtype=np.int64),
        used=np.zeros(sets + 1),
        overfull=np.full(MOST_SETS, NONE, dtype=np.int64),
        weight=weights,
        bytes=np.zeros((weights.size, COLUMNS)),
    )


def with_lines(state: State, place: Numbers, tensor: Numbers) -> State:
    """Return the state with more lines, of these sets and tensors."""
    more = place.size
    unknown = np.full(more, NONE, dtype=np.int64)
    masks = np.zeros((more * ENTRIES, 4), dtype=np.uint64)
    links = np.full((more * ENTRIES, 2), NONE, dtype=np.int32)
    return state._replace(
        masks=np.concatenate((state.masks, masks)),
        links=np.concatenate((state.links, links)),
        dirty_links=np.concatenate((state.dirty_links, links)),
        lines=np.concatenate((state.lines, np.stack((place, tensor, unknown, unknown), axis=1))),
    )
