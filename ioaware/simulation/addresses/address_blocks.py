"""Divide the addresses of a tensor into blocks and lines of the cache model.

A block is valid or absent as a whole. A line holds up to 64 blocks and is the unit of replacement, as in a sectored cache. A
tensor accessed in contiguous tiles has blocks of consecutive bytes. A tensor accessed in tiles that are columns of wider rows
has cells of rows and columns, so that a tile is whole cells. A tile owns a block if it covers the middle of the block: tiles
that share no byte share no block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from ioaware.simulation.addresses.taken_lines import Area, Grid, Masks, Numbers, Taken, find_lines

ONE_RUN = Area(1, 0, cells=False, whole=False)
SPARE_LINES = 64
"""Lines between two tensors; accesses beyond the end of the first are there."""


@dataclass(frozen=True, slots=True)
class Rectangle:
    """`rows` runs of `run` bytes, `pitch` bytes apart.

    The first starts `offset` bytes after the start of the access.
    """

    offset: int
    rows: int
    run: int
    pitch: int

    @property
    def bytes(self) -> int:
        """Bytes of all rows."""
        return self.rows * self.run


def rectangles(addresses: Numbers, element_bytes: int) -> list[Rectangle]:
    """Cover the bytes of elements at these addresses with rectangles.

    Each byte is covered once, and each rectangle has one pitch.
    """
    starts = _distinct(addresses)
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


def _distinct(addresses: Numbers) -> Numbers:
    """Return the distinct addresses in order. Most tiles list theirs in order already."""
    if (addresses[1:] > addresses[:-1]).all():
        return addresses
    ordered = np.sort(addresses)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]


def joined(part: Rectangle, stride: int, tiles: int) -> Rectangle | None:
    """Return the union of so many tiles, `stride` bytes apart, as one rectangle.

    None where it is none: tiles overlap, or lie neither side by side nor one below the other.
    """
    apart = abs(stride)
    if apart == 0 or tiles == 1:
        return part
    if part.rows == 1 and apart >= part.run:
        return Rectangle(part.offset, tiles, part.run, apart)
    if part.rows > 1 and apart == part.run and tiles * part.run <= part.pitch:
        return Rectangle(part.offset, part.rows, tiles * part.run, part.pitch)
    if part.rows > 1 and apart == part.rows * part.pitch:
        return Rectangle(part.offset, tiles * part.rows, part.run, part.pitch)
    return None


@dataclass(frozen=True, slots=True)
class Blocks:
    """Block layout of one tensor.

    Cells of `rows` x `columns` bytes lie in rows of `pitch` bytes. Linear blocks are 1 x `pitch`.
    """

    pitch: int
    rows: int
    columns: int
    blocks_per_line: int
    first_line: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of one block."""
        return self.rows * self.columns

    @property
    def line_bytes(self) -> int:
        """Bytes of one line."""
        return self.bytes * self.blocks_per_line

    @property
    def plain(self) -> bool:
        """Whether blocks are consecutive in memory."""
        return self.rows == 1 and self.columns == self.pitch

    def lines(self, base: Numbers, part: Rectangle, taken: Taken | None = None) -> tuple[Numbers, Numbers, Masks]:
        """Return (index of the address, line, mask of blocks) of a rectangle.

        It lies at each of these addresses. There is an entry for every line of every row of blocks, or for the `taken` ones.
        """
        start, size = base + part.offset, part.run
        if self.plain:
            apart = part.rows > 1 and part.run < part.pitch
            area = Area(part.rows, part.pitch, cells=False, whole=False) if apart else ONE_RUN
            size = part.run if apart else part.bytes
        elif part.rows > 1 and part.pitch % self.pitch == 0 and part.run < part.pitch:
            area = Area((part.rows - 1) * (part.pitch // self.pitch) + 1, 0, cells=True, whole=False)
        elif part.bytes > self.pitch:
            area, size = Area(-(-part.bytes // self.pitch), 0, cells=True, whole=True), self.pitch
        else:
            area, size = Area(1, 0, cells=True, whole=False), part.bytes
        return find_lines(start, np.array([size]), area, self._grid, taken or Taken(1))

    def lines_of_runs(self, begin: Numbers, size: Numbers, taken: Taken | None = None) -> tuple[Numbers, Numbers, Masks]:
        """Return what `lines` does for runs of bytes in blocks that are `plain`."""
        return find_lines(begin, size, ONE_RUN, self._grid, taken or Taken(1))

    @property
    def _grid(self) -> Grid:
        return Grid(self.pitch, self.rows, self.columns, self.blocks_per_line, self.first_line)


def masks(begin: Numbers, end: Numbers) -> Masks:
    """Return masks with the bits from `begin` up to `end`, exclusive, of at most 64."""
    length = (end - begin).astype(np.uint64)
    ones = np.uint64(0xFFFFFFFFFFFFFFFF) >> (np.uint64(64) - np.maximum(length, np.uint64(1)))
    return np.where(length > 0, ones << begin.astype(np.uint64), np.uint64(0))


def choose_blocks(parts: Sequence[Rectangle], alignment: int, line_bytes: int) -> Blocks:
    """Choose the blocks of a tensor.

    They follow its access rectangles and their alignment in bytes.

    `line_bytes` is the wanted size of a line.
    """
    pitched = [part for part in parts if part.rows > 1 and part.run < part.pitch]
    if pitched:
        weight: Counter[int] = Counter()
        for part in pitched:
            weight[part.pitch] += part.bytes
        pitch = weight.most_common(1)[0][0]
        same = [part for part in pitched if part.pitch == pitch]
        rows, columns = min(part.rows for part in same), min(part.run for part in same)
        return Blocks(pitch, rows, columns, max(1, min(64, line_bytes // (rows * columns))))
    grain = gcd(alignment, *[part.bytes for part in parts]) or 32
    while grain * 64 < line_bytes:
        grain *= 2
    return Blocks(grain, 1, grain, max(1, min(64, line_bytes // grain)))
