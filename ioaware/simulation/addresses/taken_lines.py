"""Find the lines of accesses to a tensor, or those of a sample of the lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ioaware.simulation.compiled import compiled, inlined

Numbers = NDArray[np.int64]
Masks = NDArray[np.uint64]
MIX = np.uint64(0x9E3779B97F4A7C15)
ALL_BLOCKS = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(slots=True)
class Taken:
    """Lines of a storage that are replayed: one of `every`, by a hash.

    Where `seen` has lines, from `first_line` on, accesses to lines are counted, and those lines are marked.
    """

    every: int
    first_line: int = 0
    seen: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    accesses: int = 0


def is_taken(line: Numbers, every: int) -> NDArray[np.bool_]:
    """Return whether lines are in the sample: one of `every`, by a hash."""
    group = line // every
    mixed = (group.astype(np.uint64) + np.uint64(1)) * MIX >> np.uint64(32)
    return line - group * every == (mixed % np.uint64(every)).astype(np.int64)


class Grid(NamedTuple):
    """Blocks of a tensor, as in `Blocks`, and the lines that they are in."""

    pitch: int
    rows: int
    columns: int
    per_line: int
    first_line: int


class Area(NamedTuple):
    """Bytes that each execution accesses, `rows` runs, `pitch` bytes apart.

    Where `cells`, they are `rows` rows of cells instead. `whole` rows of cells begin at the first column.
    """

    rows: int
    pitch: int
    cells: bool
    whole: bool


def find_lines(start: Numbers, size: Numbers, area: Area, grid: Grid, taken: Taken) -> tuple[Numbers, Numbers, Masks]:
    """Return (index of the start, line, mask of blocks) of what lies at each start.

    `size` is the bytes of a run, of each start or the same for all. There is an entry for every taken line of every row.
    """
    start, size = np.ascontiguousarray(start), np.ascontiguousarray(size)
    sample = taken.every, taken.first_line
    rows = -(-area.rows // grid.rows) if area.cells else area.rows
    room = 2 * start.size * rows // taken.every + 64
    while True:
        which, line, mask = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64), np.empty(room, dtype=np.uint64)
        found, accesses = _find(start, size, area, grid, sample, taken.seen, which, line, mask)
        if found <= room:
            taken.accesses += accesses
            return which[:found], line[:found], mask[:found]
        room = found


@compiled
def _find(
    start: Numbers,
    size: Numbers,
    area: Area,
    grid: Grid,
    sample: tuple[int, int],
    seen: NDArray[np.bool_],
    which: Numbers,
    line: Numbers,
    mask: Masks,
) -> tuple[int, int]:
    """Return how many lines are taken, and how many there are.

    As many as there is room for are written to `which`, `line` and `mask`.
    """
    pitch_shift, row_shift, column_shift = _shift(grid.pitch), _shift(grid.rows), _shift(grid.columns)
    shifts = _shift(grid.per_line), _shift(sample[0])
    across = -(-grid.pitch // grid.columns)
    found = accesses = 0
    for at in range(start.size):
        first, wide = int(start[at]), int(size[min(at, size.size - 1)])
        top, bottom, left, right = 0, area.rows, 0, 0
        if area.cells:
            row = _quotient(first, grid.pitch, pitch_shift)
            column = 0 if area.whole else first - row * grid.pitch
            top, bottom = _rounded(row, grid.rows, row_shift), _rounded(row + area.rows, grid.rows, row_shift)
            left = _rounded(column, grid.columns, column_shift)
            right = min(_rounded(column + wide, grid.columns, column_shift), across)
        for number in range(top, bottom):
            if area.cells:
                low, high = number * across + left, number * across + right
            else:
                begin = first + number * area.pitch
                low = _rounded(begin, grid.columns, column_shift)
                high = _rounded(begin + wide, grid.columns, column_shift)
            found, some = _take(low, high, at, found, grid, sample, shifts, seen, which, line, mask)
            accesses += some
    return found, accesses


@inlined
def _take(
    low: int,
    high: int,
    at: int,
    found: int,
    grid: Grid,
    sample: tuple[int, int],
    shifts: tuple[int, int],
    seen: NDArray[np.bool_],
    which: Numbers,
    line: Numbers,
    mask: Masks,
) -> tuple[int, int]:
    """Add the taken lines of a range of blocks.

    Return how many are taken now, and how many the range has.
    """
    if high <= low:
        return found, 0
    every, first_seen = sample
    shift, every_shift = shifts
    per_line = grid.per_line
    first, last = _quotient(low, per_line, shift), _quotient(high - 1, per_line, shift)
    for number in range(first, last + 1):
        name = number + grid.first_line
        if seen.size:
            seen[min(max(name - first_seen, 0), seen.size - 1)] = True
        if every > 1 and not _is_taken(name, every, every_shift):
            continue
        if found < which.size:
            begin, end = max(low - number * per_line, 0), min(high - number * per_line, per_line)
            which[found], line[found] = at, name
            mask[found] = ALL_BLOCKS >> np.uint64(64 - (end - begin)) << np.uint64(begin)
        found += 1
    return found, last + 1 - first


@inlined
def _is_taken(line: int, every: int, shift: int) -> bool:
    """Return what `is_taken` returns for a line."""
    group = _quotient(line, every, shift)
    mixed = int(np.int64((np.uint64(group) + np.uint64(1)) * MIX >> np.uint64(32)))
    return line - group * every == mixed - _quotient(mixed, every, shift) * every


@inlined
def _rounded(value: int, step: int, shift: int) -> int:
    """Return the number of the step that begins nearest."""
    return _quotient(2 * value + step, 2 * step, shift + 1 if shift >= 0 else shift) if step > 1 else value


@inlined
def _quotient(value: int, divisor: int, shift: int) -> int:
    """Return the floor of a quotient. A division takes ten times as long as a shift."""
    return value >> shift if shift >= 0 else value // divisor


@inlined
def _shift(divisor: int) -> int:
    """Return the shift that divides by a power of two; -1 for other numbers."""
    if divisor & (divisor - 1):
        return -1
    shift = 0
    while divisor >> shift > 1:
        shift += 1
    return shift
