"""Addresses of a tensor as blocks, the grain of what is in a cache, and units of up to 64 blocks, the grain of replacement.

A tensor read in contiguous tiles is cut along its addresses. One whose tiles are columns of a wider row is cut into cells of
rows and columns, so that a tile is whole cells. A block is of a tile if its middle is: tiles that share no byte share no block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Masks = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Rectangle:
    """`rows` runs of `run` bytes, `pitch` bytes apart, the first `offset` bytes after the start of an access."""

    offset: int
    rows: int
    run: int
    pitch: int

    @property
    def bytes(self) -> int:
        """All rows together."""
        return self.rows * self.run


def rectangles(addresses: Numbers, element_bytes: int) -> list[Rectangle]:
    """Cover the bytes of elements at these addresses, each byte once, by rectangles of rows of one pitch."""
    starts = np.unique(addresses)
    if not starts.size:
        return []
    breaks = np.flatnonzero(np.diff(starts) > element_bytes)
    first = starts[np.concatenate(([0], breaks + 1))]
    last = starts[np.concatenate((breaks, [starts.size - 1]))] + element_bytes
    runs = last - first
    found: list[Rectangle] = []
    at = 0
    while at < first.size:
        end = at + 1
        pitch = int(first[end] - first[at]) if end < first.size else int(runs[at])
        while end < first.size and first[end] - first[end - 1] == pitch and runs[end] == runs[at]:
            end += 1
        rows = end - at
        found.append(Rectangle(int(first[at]), rows, int(runs[at]), pitch if rows > 1 else int(runs[at])))
        at = end
    return found


@dataclass(frozen=True, slots=True)
class Blocks:
    """How one tensor is cut: cells of `rows` x `columns` bytes of rows of `pitch` bytes; plain blocks have 1 x `pitch`."""

    pitch: int
    rows: int
    columns: int
    per_unit: int
    first_unit: int = 0

    @property
    def bytes(self) -> int:
        """Of one block."""
        return self.rows * self.columns

    @property
    def unit_bytes(self) -> int:
        """Of one unit."""
        return self.bytes * self.per_unit

    @property
    def plain(self) -> bool:
        """Whether blocks follow each other in memory."""
        return self.rows == 1 and self.columns == self.pitch

    def rounded(self, address: Numbers) -> Numbers:
        """Return the plain block whose start is nearest."""
        return _rounded(address, self.columns)

    def intervals(self, base: Numbers, part: Rectangle) -> Iterator[tuple[Numbers, Numbers]]:
        """Return the half-open ranges of block numbers that a rectangle at each of these addresses covers."""
        start = base + part.offset
        if self.plain:
            if part.rows > 1 and part.run < part.pitch:
                for row in range(part.rows):
                    at = start + row * part.pitch
                    yield self.rounded(at), self.rounded(at + part.run)
            else:
                yield self.rounded(start), self.rounded(start + part.bytes)
            return
        across = -(-self.pitch // self.columns)
        row, column = start // self.pitch, start % self.pitch
        if part.rows > 1 and part.pitch % self.pitch == 0 and part.run < part.pitch:
            step = part.pitch // self.pitch
            high, wide = (part.rows - 1) * step + 1, part.run
        elif part.bytes > self.pitch:
            high, wide = -(-part.bytes // self.pitch), self.pitch
            column = np.zeros_like(column)
        else:
            high, wide = 1, part.bytes
        top, bottom = _rounded(row, self.rows), _rounded(row + high, self.rows)
        left, right = _rounded(column, self.columns), np.minimum(_rounded(column + wide, self.columns), across)
        for k in range(int((bottom - top).max(initial=0))):
            inside = top + k < bottom
            yield np.where(inside, (top + k) * across + left, 0), np.where(inside, (top + k) * across + right, 0)

    def units(self, low: Numbers, high: Numbers) -> tuple[Numbers, Numbers, Masks]:
        """For ranges of blocks: which range, the unit and the mask of the blocks in it, for every unit of every range."""
        first = low // self.per_unit
        spans = np.where(high > low, (high - 1) // self.per_unit - first + 1, 0)
        which = np.repeat(np.arange(low.size), spans)
        unit = first[which] + np.arange(which.size) - (np.cumsum(spans) - spans)[which]
        begin = np.maximum(low[which] - unit * self.per_unit, 0)
        end = np.minimum(high[which] - unit * self.per_unit, self.per_unit)
        return which, unit + self.first_unit, masks(begin, end)


def masks(begin: Numbers, end: Numbers) -> Masks:
    """Bits from `begin` up to `end`, exclusive, of at most 64."""
    length = (end - begin).astype(np.uint64)
    ones = np.uint64(0xFFFFFFFFFFFFFFFF) >> (np.uint64(64) - np.maximum(length, np.uint64(1)))
    return np.where(length > 0, ones << begin.astype(np.uint64), np.uint64(0))


def _rounded(value: Numbers, step: int) -> Numbers:
    return (2 * value + step) // (2 * step) if step > 1 else value


def cut(parts: Sequence[Rectangle], alignment: int, unit_bytes: int) -> Blocks:
    """Choose the blocks of a tensor that is accessed in these rectangles, at multiples of `alignment`.

    `unit_bytes` is the size that units shall have.
    """
    pitched = [part for part in parts if part.rows > 1 and part.run < part.pitch]
    if pitched:
        pitch = max((p.pitch for p in pitched), key=lambda one: sum(p.bytes for p in pitched if p.pitch == one))
        same = [part for part in pitched if part.pitch == pitch]
        rows, columns = min(part.rows for part in same), min(part.run for part in same)
        return Blocks(pitch, rows, columns, max(1, min(64, unit_bytes // (rows * columns))))
    grain = gcd(alignment, *[part.bytes for part in parts]) or 32
    while grain * 64 < unit_bytes:
        grain *= 2
    return Blocks(grain, 1, grain, max(1, min(64, unit_bytes // grain)))
