"""Find stores whose instructions share sectors.

An L2 then sees more of their sectors than the formulas count.

The formulas count each sector of a store once. A thread that holds consecutive elements writes them by several instructions
where the compiler cannot prove an alignment. A row that begins inside a sector makes neighbouring instructions share one, and
so do the copies of a row by TMA. Each instruction requests its sectors; how many of them the L1 merges depends on time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from ioaware.analysis.ir.mlir.locations import frames
from ioaware.compilation.compiled_accesses import ELEMENT_BYTES, LOCATION, WIDEST_BYTES, Access, laid_out
from ioaware.compilation.layouts import Indices, distinct_in_rows, requests
from ioaware.machine.model import SECTOR_BYTES

TMA_ROW_BYTES = 128
"""Widest row of a TMA box in shared memory; a wider tile is several boxes."""
_CONSTANT = re.compile(r"(%\w+) = arith\.constant (?:dense<)?(\d+)>? : (?:tensor<[^>]*?)?i(?:32|64)")
_PRODUCT = re.compile(r"arith\.muli (%\w+), (%\w+)")
_TMA_STORE = re.compile(
    r"ttng\.async_tma_copy_local_to_global .*!ttg\.memdesc<(?:\d+x)*(?P<columns>\d+)x(?P<element>\w+),.*loc\((?P<loc>#loc\d*)\)"
)


@dataclass(frozen=True, slots=True)
class NarrowStore:
    """Store at a line of the source, and its requests of each sector.

    The requests say how often its instructions request each sector of a whole tile.

    `aligned`: where the rows of the tile begin at a sector. `unaligned`: at the worst other place. `by_start`: at each place
    within a sector, evenly spread.
    """

    line: str
    aligned: float
    unaligned: float
    by_start: tuple[float, ...]


def narrow_stores(ttgir: str, ptx: str) -> tuple[NarrowStore, ...]:
    """Return the stores of a compiled kernel that request a sector more than once.

    The tile is taken as rows of adjacent elements. None are found where a layout is unknown.
    """
    stores = laid_out(ttgir, ptx, "write")
    if stores is None:
        return ()
    factors = _constant_factors(ttgir)
    found = [NarrowStore(source_line(store.frames), *_repetitions(store, factors)) for store in stores]
    return tuple(dict.fromkeys(store for store in (*found, *_tma_stores(ttgir)) if store.unaligned > 1))


def source_line(stack: tuple[str, ...]) -> str:
    """Return file name and line, without folders.

    Triton's cache may hold a kernel compiled from another path.
    """
    return stack[0].rpartition("/")[2] if stack else ""


def _constant_factors(ttgir: str) -> frozenset[int]:
    """Return the constants by which a kernel multiplies indices, but powers of two.

    The stride of rows is one of them where the compiler knows it. Powers of two are sizes of tiles, or aligned strides.
    """
    constants = {name: int(value) for name, value in _CONSTANT.findall(ttgir)}
    factors = {constants[name] for pair in _PRODUCT.findall(ttgir) for name in pair if name in constants}
    return frozenset(factor for factor in factors if factor & (factor - 1))


def _tma_stores(ttgir: str) -> Iterator[NarrowStore]:
    """Yield the TMA stores of tiles wider than a box.

    Rows that begin inside a sector then share one sector a box.
    """
    known = dict(LOCATION.findall(ttgir))
    for match in _TMA_STORE.finditer(ttgir):
        row_bytes = int(match["columns"]) * ELEMENT_BYTES.get(match["element"], 0)
        if row_bytes > TMA_ROW_BYTES:
            boxes = row_bytes // TMA_ROW_BYTES
            unaligned = boxes * (TMA_ROW_BYTES // SECTOR_BYTES + 1) / (row_bytes // SECTOR_BYTES + 1)
            yield NarrowStore(source_line(frames(match["loc"], known)), 1, unaligned, (1, unaligned))


def _repetitions(store: Access, factors: frozenset[int]) -> tuple[float, float, tuple[float, ...]]:
    """Return the requests of a sector for aligned rows, the most, and at each place.

    Aligned rows begin at a sector. The places are those that the compiler allows. With a constant stride that is no multiple of
    a sector no rows are aligned.

    Why 16 elements: that is the divisibility of other strides for which Triton compiles wide instructions.
    """
    strides = [one for one in factors if one % store.vector == 0 and one * store.element_bytes % SECTOR_BYTES]
    is_wide = store.vector * store.element_bytes == WIDEST_BYTES and not strides
    times = [_repetition(store, start) for start in range(0, SECTOR_BYTES, store.element_bytes * store.vector)]
    places = times[:1] if is_wide and store.element_bytes * 16 >= SECTOR_BYTES else times
    adjacent = [_repetition(store, 0, stride) for stride in strides if stride <= store.shape[_fastest(store)]]
    most = max([*places, *adjacent])
    rows = prod(store.shape) // store.shape[_fastest(store)]
    return (most if strides else times[0]), most, (most,) if strides and rows > 1 else tuple(times)


def _repetition(store: Access, start: int, stride: int | None = None) -> float:
    """Return how often instructions request a sector of a whole tile.

    Its rows begin `start` bytes into a sector, and no two share one. Those of `stride` elements follow each other.
    """
    if store.layout is None:
        return 1
    sectors = tile_addresses(store, start, stride) // SECTOR_BYTES
    requested = distinct_in_rows(sectors.ravel()[requests(store.layout, store.shape, store.vector, store.once)])
    return requested.size / np.unique(sectors[sectors >= 0]).size


def tile_addresses(store: Access, start: int, stride: int | None = None, unit_bytes: int = SECTOR_BYTES) -> Indices:
    """Return the byte address of each element of a tile, -1 beyond the stride.

    A row is the layout's fastest dimension. Rows begin `start` bytes into a unit, a sector if not said otherwise. No two share
    one but for those of `stride` elements, which follow each other.
    """
    fastest = _fastest(store)
    others = [size for dimension, size in enumerate(store.shape) if dimension != fastest]
    columns = np.arange(store.shape[fastest], dtype=np.int64)
    rows = np.arange(prod(others), dtype=np.int64)[:, None]
    apart_bytes = (columns.size * store.element_bytes // unit_bytes + 2) * unit_bytes
    row_bytes = apart_bytes if stride is None else stride * store.element_bytes
    addresses = start + rows * row_bytes + columns * store.element_bytes
    inside = columns < (columns.size if stride is None else stride)
    return np.moveaxis(np.where(inside, addresses, -1).reshape(*others, -1), -1, fastest)


def _fastest(store: Access) -> int:
    return store.layout.order[0] if store.layout else 0
