"""Find loads and stores of which several instructions touch one line of the L1.

Such a line has hit before the program accesses it again. A thread may move adjacent elements one by one, or the lanes of a warp
cover less than a line. Several warps may load the same elements. A row of the tile may begin inside a line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ioaware.compilation.compiled_accesses import Access, Kind, accesses
from ioaware.compilation.instructions.compiled_loads import place
from ioaware.compilation.instructions.narrow_stores import tile_addresses
from ioaware.compilation.instructions.wide_copies import LINE_BYTES
from ioaware.compilation.layouts import Indices, distinct_in_rows, requests

STARTS = tuple(range(0, LINE_BYTES, 16))
"""Places within a line where rows may begin."""


@dataclass(frozen=True, slots=True)
class SharedLines:
    """Access at a place of the source, and what its instructions share.

    `by_start` is the share of its lines that several of them touch, at each of `STARTS`.
    """

    kind: Kind
    place: str
    by_start: tuple[float, ...]


def shared_lines(ttgir: str, ptx: str) -> tuple[SharedLines, ...]:
    """Return the accesses of a compiled kernel in order.

    None are found where a layout or width is unknown. The tile is taken as rows of adjacent elements.
    """
    try:
        found = accesses(ttgir, ptx)
    except ValueError:
        return ()
    return tuple(SharedLines(one.kind, place(one.frames), _by_start(one)) for one in found)


def _by_start(access: Access) -> tuple[float, ...]:
    if access.layout is None:
        return (float(access.warps > 1 and not access.once),) * len(STARTS)
    chosen = requests(access.layout, access.shape, access.vector, access.once)
    return tuple(_shared(tile_addresses(access, start, unit_bytes=LINE_BYTES).ravel()[chosen]) for start in STARTS)


def _shared(addresses: Indices) -> float:
    """Return the share of lines that several instructions touch.

    `addresses` has a row for each instruction.
    """
    _, times = np.unique(distinct_in_rows(addresses // LINE_BYTES), return_counts=True)
    return float(np.mean(times > 1))


def start_numbers(starts: Indices) -> Indices:
    """Return the number of the place in `STARTS` where rows begin.

    For addresses between two it is the next one, or the last.
    """
    return np.minimum(-(-(starts % LINE_BYTES) // STARTS[1]), len(STARTS) - 1)
