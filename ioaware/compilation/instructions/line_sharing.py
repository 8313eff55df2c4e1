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
from ioaware.compilation.layouts import Indices, requests

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
    lines = np.sort(addresses // LINE_BYTES, axis=1)
    first = np.ones(lines.shape, dtype=np.bool_)
    first[:, 1:] = lines[:, 1:] != lines[:, :-1]
    _, times = np.unique(lines[first], return_counts=True)
    return float(np.mean(times > 1))
