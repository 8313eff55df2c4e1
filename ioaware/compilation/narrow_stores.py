"""Find stores whose instructions share sectors.

An L2 then sees more of their sectors than the formulas count.

The formulas count each sector of a store once. A thread that holds consecutive elements writes them by several instructions
where the compiler cannot prove an alignment. A row that begins inside a sector makes neighbouring instructions share one. Each
instruction requests its sectors; how many of them the L1 merges depends on time.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ioaware.compilation.compiled_accesses import WIDEST_BYTES, Access, accesses
from ioaware.compilation.layouts import Indices, requests
from ioaware.machine.model import SECTOR_BYTES


@dataclass(frozen=True, slots=True)
class NarrowStore:
    """Store at a line of the source, and its requests of each sector.

    The requests say how often its instructions request each sector of a whole tile.

    `aligned`: where the rows of the tile begin at a sector. `unaligned`: at the worst other place.
    """

    line: str
    aligned: float
    unaligned: float


def narrow_stores(ttgir: str, ptx: str) -> tuple[NarrowStore, ...]:
    """Return the stores of a compiled kernel that request a sector more than once.

    The tile is taken as rows of adjacent elements. None are found where a layout is unknown.
    """
    try:
        stores = [store for store in accesses(ttgir, ptx, kinds=("write",)) if store.layout is not None]
    except ValueError:
        return ()
    found = (NarrowStore(_place(store), *_repetitions(store)) for store in stores)
    return tuple(dict.fromkeys(store for store in found if store.unaligned > 1))


def _place(store: Access) -> str:
    """Return file name and line, without folders.

    Triton's cache may hold a kernel compiled from another path.
    """
    return store.frames[0].rpartition("/")[2] if store.frames else ""


def _repetitions(store: Access) -> tuple[float, float]:
    """Return the requests of a sector for aligned rows, and the most at any place.

    Aligned rows begin at a sector. The places are those that the compiler allows.

    Why 16 elements: that is the divisibility of strides for which Triton compiles wide instructions.
    """
    is_wide = store.vector * store.element_bytes == WIDEST_BYTES
    step = store.element_bytes * (16 if is_wide else store.vector)
    times = [requested_sectors(store, start) / tile_sectors(store, start) for start in range(0, SECTOR_BYTES, step)]
    return times[0], max(times)


def requested_sectors(store: Access, start: int) -> int:
    """Return the sectors that the instructions request for a whole tile.

    Its rows begin `start` bytes into a sector.
    """
    if store.layout is None:
        return 1
    chosen = requests(store.layout, store.shape, store.vector, store.once)
    places = np.sort(_sector_of_elements(store, start).ravel()[chosen], axis=1)
    return int(chosen.shape[0] + np.count_nonzero(places[:, 1:] != places[:, :-1]))


def tile_sectors(store: Access, start: int) -> int:
    """Return the distinct sectors of a whole tile.

    Its rows begin `start` bytes into a sector.
    """
    return int(np.unique(_sector_of_elements(store, start)).size)


def _sector_of_elements(store: Access, start: int) -> Indices:
    """Return the sector of each element of a tile, no sector shared by rows.

    A row is the layout's fastest dimension.
    """
    fastest = store.layout.order[0] if store.layout else 0
    columns = (start + np.arange(store.shape[fastest], dtype=np.int64) * store.element_bytes) // SECTOR_BYTES
    rows = np.arange(prod(store.shape) // store.shape[fastest], dtype=np.int64)[:, None] * (columns[-1] + 1)
    others = [size for dimension, size in enumerate(store.shape) if dimension != fastest]
    return np.moveaxis((rows + columns).reshape(*others, -1), -1, fastest)
