"""Arrays that hold the state of a modelled cache.

A line has four entries, `4 * line + entry`. Bit 0 of an entry is its partition; bit 1 marks a copy of the other partition's
line. A set is a list of its entries, the least recently used first, linked through `older` and `newer`. The dirty entries are
another list, the one that became dirty first in front.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ioaware.simulation.addresses.address_blocks import Masks, Numbers

ENTRIES = 4
"""Entries of a line: home and copy in each partition."""
NONE = -1
FIRST, LAST = 0, 1
READ_BYTES, WRITE_BYTES, FIRST_BYTES, REWRITTEN_BYTES, EXCESS_BYTES = 0, 1, 2, 3, 4
"""Columns of `bytes`.

The excess has one for each of three reasons: wave, capacity, skew.
"""
COLUMNS = 7


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
    """Contents of the cache and what was counted."""

    # of each entry: masks of blocks, and neighbours in the lists
    resident: Masks
    dirty: Masks
    read_before: Masks
    written_before: Masks
    older: Numbers
    newer: Numbers
    dirty_older: Numbers
    dirty_newer: Numbers
    # of each line
    place: Numbers
    tensor: Numbers
    last_wave: Numbers
    last_program: Numbers
    # of each set: its ends, and the bytes in it
    ends: Numbers
    used: NDArray[np.float64]
    # of all: the ends of the dirty list, the dirty bytes, and the sets that are too full, after their number
    dirty_ends: Numbers
    dirty_used: NDArray[np.float64]
    overfull: Numbers
    # of each tensor
    weight: NDArray[np.float64]
    bytes: NDArray[np.float64]


PER_LINE = ("place", "tensor", "last_wave", "last_program")
MASKS = ("resident", "dirty", "read_before", "written_before")
LINKS = ("older", "newer", "dirty_older", "dirty_newer")
MOST_OVERFULL = 16
"""An event touches at most so many sets."""


def empty_state(sets: int, weights: NDArray[np.float64]) -> State:
    """Return a cache of so many sets without lines.

    `weights` are bytes of a block in each partition, by tensor.
    """
    no_lines: dict[str, NDArray[Any]] = {name: np.empty(0, dtype=np.uint64) for name in MASKS}
    no_lines |= {name: np.empty(0, dtype=np.int64) for name in (*LINKS, *PER_LINE)}
    return State(
        **no_lines,
        ends=np.full((sets, 2), NONE, dtype=np.int64),
        used=np.zeros(sets),
        dirty_ends=np.full(2, NONE, dtype=np.int64),
        dirty_used=np.zeros(1),
        overfull=np.zeros(1 + MOST_OVERFULL, dtype=np.int64),
        weight=weights,
        bytes=np.zeros((weights.size, COLUMNS)),
    )


def with_lines(state: State, place: Numbers, tensor: Numbers) -> State:
    """Return the state with more lines, of these sets and tensors."""
    more = place.size
    grown: dict[str, NDArray[Any]] = {"place": place, "tensor": tensor}
    grown |= {name: np.full(more, NONE, dtype=np.int64) for name in ("last_wave", "last_program")}
    grown |= {name: np.zeros(more * ENTRIES, dtype=np.uint64) for name in MASKS}
    grown |= {name: np.full(more * ENTRIES, NONE, dtype=np.int64) for name in LINKS}
    return state._replace(**{name: np.concatenate((getattr(state, name), new)) for name, new in grown.items()})
