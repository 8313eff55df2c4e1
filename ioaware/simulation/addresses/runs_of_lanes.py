"""Find the runs of adjacent bytes that each of very many executions accesses.

An access whose executions have thousands of shapes is described by runs instead of one template a shape. Runs are cut into
pieces whose sizes are powers of two, so that few sizes remain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.algebra.poly import Poly
from ioaware.analysis.ir.sectors.lanes import Evaluation
from ioaware.simulation.compiled import compiled

Numbers = NDArray[np.int64]
NOWHERE = np.iinfo(np.int64).max
MAX_ADDRESSES, CHUNK = 1 << 28, 1 << 16
"""Lanes of all shapes of an access, and of those at a time.

The latter fit in the cache of a core.
"""
MAX_RUNS = 1 << 24


@dataclass(frozen=True, slots=True)
class ShapeRuns:
    """Runs of bytes of each shape.

    Those of shape s are the `count[s]` from `first[s]` on.
    """

    first: Numbers
    count: Numbers
    start: Numbers
    bytes: Numbers

    def pieces(self, shape: Numbers) -> Iterator[tuple[Numbers, Numbers, int]]:
        """Yield (executions, starts, bytes) of pieces of one size.

        `shape` is that of each execution. Raises `ValueError` for too many runs.
        """
        count = self.count[shape]
        total = int(count.sum())
        if total > MAX_RUNS:
            raise ValueError(f"{total} runs of bytes are too many to enumerate")
        execution = np.repeat(np.arange(shape.size), count)
        at = self.first[shape[execution]] + np.arange(total) - np.repeat(np.cumsum(count) - count, count)
        start, size = self.start[at], self.bytes[at]
        for bit in reversed(range(int(size.max(initial=0)).bit_length())):
            which = (size >> bit & 1) == 1
            if which.any():
                yield execution[which], (start + (size >> (bit + 1) << (bit + 1)))[which], 1 << bit


def runs_of_shapes(
    touch: Touch,
    offset: Poly,
    lanes: Mapping[str, Numbers],
    shapes: Mapping[str, Numbers],
    residue: Numbers | None,
    least_bytes: int,
) -> ShapeRuns:
    """Return the runs of each shape.

    `offset` is an element's place after an execution's start, `shapes` the values of its symbols other than the lanes. With
    `residue`, the start's place in pieces of `least_bytes`, runs are whole pieces. Raises `ValueError` for too many shapes.
    """
    size = touch.shape or (1,)
    width, count = prod(size), max((column.size for column in shapes.values()), default=1)
    if count * width > MAX_ADDRESSES:
        raise ValueError(f"{count} shapes of one access of {width} lanes are too many to enumerate")
    found: list[tuple[Numbers, Numbers, Numbers]] = []
    step = max(1, CHUNK // width)
    for low in range(0, count, step):
        values = {key: column[low : low + step].reshape(-1, *(1 for _ in size)) for key, column in shapes.items()} | dict(lanes)
        rows = min(step, count - low)
        numeric = Evaluation(values)
        offsets = np.broadcast_to(numeric(offset), (rows, *size)).reshape(rows, width)
        active = np.broadcast_to(numeric(touch.mask) != 0, (rows, *size)).reshape(rows, width)
        if residue is None:
            row, start, bytes_ = runs(offsets, active, touch.element_bytes)
        else:
            row, start, bytes_ = runs(pieces(offsets, residue[low : low + step, None], least_bytes), active, least_bytes)
        found.append((row + low, start, bytes_))
    shape, start, bytes_ = (np.concatenate(column) for column in zip(*found, strict=True))
    return ShapeRuns(np.searchsorted(shape, np.arange(count)), np.bincount(shape, minlength=count), start, bytes_)


def runs(offsets: Numbers, active: NDArray[np.bool_], element_bytes: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return (row, start, bytes) of each run of adjacent elements in each row.

    `offsets` are bytes, executions x lanes; lanes that are not `active` access nothing. Runs are in the order of rows.
    """
    starts = np.where(active, offsets, NOWHERE)
    if (starts[:, 1:] < starts[:, :-1]).any():
        starts.sort(axis=1)
    row, start, end = (np.empty(starts.size, dtype=np.int64) for _ in range(3))
    count = _runs(starts, element_bytes, row, start, end)
    return row[:count], start[:count].copy(), end[:count] - start[:count]


@compiled
def _runs(starts: Numbers, element_bytes: int, row: Numbers, start: Numbers, end: Numbers) -> int:
    """Write the row, start and end of each run of ordered elements; return how many."""
    count = 0
    for at in range(starts.shape[0]):
        for lane in range(starts.shape[1]):
            first = starts[at, lane]
            if first == NOWHERE:
                break
            if lane == 0 or first > end[count - 1]:
                row[count], start[count] = at, first
                count += 1
            end[count - 1] = first + element_bytes
    return count


def pieces(offsets: Numbers, residue: Numbers, size: int) -> Numbers:
    """Return where the pieces of `size` bytes begin in which these offsets are.

    Offset 0 is `residue` bytes after the start of one.
    """
    return (offsets + residue) // size * size - residue
