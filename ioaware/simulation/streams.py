"""Turn the accesses of a launch into a reference stream.

It is lines and blocks over time, the input of the cache model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.algebra.poly import Atom, Poly, Symbol, Test, poly
from ioaware.analysis.ir.sectors.lanes import numeric
from ioaware.machine.model import SECTOR_BYTES
from ioaware.simulation.addresses.address_blocks import Rectangle, joined, rectangles
from ioaware.simulation.addresses.affine import (
    address,
    clipped,
    evaluate_rows,
    lane_keys,
    lane_values,
    outer_parts,
    split_lanes,
)
from ioaware.simulation.addresses.row_keys import first_of_groups, packed, sorted_rows
from ioaware.simulation.addresses.runs_of_lanes import ShapeRuns, pieces, runs_of_shapes
from ioaware.simulation.addresses.shapes import distinct_shapes
from ioaware.simulation.schedule import Schedule
from ioaware.simulation.timeline import Executions

Numbers = NDArray[np.int64]
Times = NDArray[np.float64]
Column = TypeVar("Column", Numbers, Times)
READ_BYTES = 64
"""Bytes that the L2 reads from HBM at once.

Sectors of 32 bytes alone are counted as 64 (`sectors of lines` of `ioaware/recorded/l2/h100-replacement.json`).
"""
MAX_EXECUTIONS = 1 << 24
MAX_TILES = 1 << 20
"""Executions of an access that are enumerated tile by tile.

Of more, adjacent tiles of a loop are one.
"""
MAX_TEMPLATES = 4096
"""Shapes of an access that are described one by one; more become runs of bytes."""


@dataclass(frozen=True, slots=True)
class ReferenceStream:
    """Addresses, times and programs of executions of one shape.

    A shape is single rows, or dense runs of `count` tiles of `stride` bytes.

    `partitions` is a mask of the L2 partitions whose SMs take part. `step` is the work from one tile of a run to the next, and
    `work` that before the first one; `schedule` turns work into time. Without it they are times.
    """

    base: Numbers
    time: Times
    program: Numbers
    partitions: Numbers
    parts: tuple[Rectangle, ...]
    count: Numbers | None = None
    stride: int = 0
    step: float = 0.0
    work: Times | None = None
    schedule: Schedule | None = None

    def times(self, row: Numbers, iteration: Numbers) -> Times:
        """Return when rows reach these tiles of their runs."""
        later = iteration * self.step
        if self.work is None or self.schedule is None:
            return self.time[row] + later
        return self.schedule.times(self.program[row], self.work[row] + later)


def reference_streams(
    touch: Touch, found: Executions, programs: Schedule, *, least_bytes: int, apart: bool = False
) -> list[ReferenceStream]:
    """Return the executions of an access by shape. Raises `ValueError` for too many.

    Programs that access the same addresses at the same time are merged, unless `apart`. Runs are widened to whole pieces of
    `least_bytes`.
    """
    rows = _Rows(touch, found, programs, least_bytes=least_bytes, apart=apart)
    return rows.dense() or ([] if apart else rows.grouped()) or list(rows.expanded())


def least_moved(touch: Touch) -> int:
    """Return the least bytes in one piece that an access moves between the L2 and HBM."""
    return READ_BYTES if touch.kind == "read" else SECTOR_BYTES


class _Rows:
    """Rows of one `Executions`; those with equal addresses and times are merged."""

    def __init__(self, touch: Touch, found: Executions, programs: Schedule, *, least_bytes: int, apart: bool) -> None:
        self.touch = touch
        self.least_bytes = least_bytes
        self.loop = found.loop.index.key if found.loop else None
        self.parts = address(touch, self.loop)
        self.lanes = lane_values(touch)
        self.conditions = found.conditions
        self.step = found.step
        self.schedule = programs
        columns = dict(found.columns)
        needed = frozenset[str]().union(*(one.free for one in (self.parts.mixed, touch.mask, *self.conditions)))
        count = found.program.size
        low = np.zeros(count, dtype=np.int64) if found.low is None else found.low
        high = np.ones(count, dtype=np.int64) if found.high is None else found.high
        time = programs.times(found.program, found.time)
        base = evaluate_rows(self.parts.fixed, columns, count)
        slope = evaluate_rows(self.parts.slope, columns, count)
        partitions = programs.partitions(found.program)
        keys = [base, slope, low, np.round(time).astype(np.int64), *self._distinguishing_columns(columns, count)]
        alive = high > low
        keep, group = _group_rows([*keys, found.program] if apart else keys, alive)
        self.columns = {key: column[keep] for key, column in columns.items() if key in needed}
        self.base, self.low, self.time, self.program = base[keep], low[keep], time[keep], found.program[keep]
        self.slope, self.work = slope[keep], found.time[keep]
        self.high = np.zeros(keep.size, dtype=np.int64)
        np.maximum.at(self.high, group, high[alive])
        self.partitions = np.zeros(keep.size, dtype=np.int64)
        np.bitwise_or.at(self.partitions, group, partitions[alive])

    def _distinguishing_columns(self, columns: Mapping[str, Numbers], count: int) -> Iterator[Numbers]:
        """Yield further columns that distinguish rows.

        They are indices in masks, conditions and mixed terms.
        """
        inner = lane_keys(self.touch) | {self.loop or ""}
        for value in (self.parts.mixed, *self.conditions):
            yield from _outer_columns(value, inner, columns, count)
        for atom in _atoms(self.touch.mask):
            values = None
            if isinstance(atom, Test) and self.loop not in atom.free:
                values = clipped(atom, columns, self.lanes, count)
            yield from [values] if values is not None else _outer_columns(poly(atom), inner, columns, count)

    def _always_true(self, atom: object, columns: Mapping[str, Numbers], low: Numbers, high: Numbers) -> bool | None:
        """Return whether all lanes satisfy a test of the loop's index in all iterations.

        None where undecided.
        """
        if not isinstance(atom, Test) or atom.equal:
            return None
        fixed, moving = split_lanes(atom.value, frozenset(self.lanes))
        if moving.free - self.lanes.keys() or not _linear(fixed, self.loop):
            return None
        least = -int(np.min(numeric(moving, self.lanes)))
        ends = [{**columns, self.loop or "": end} for end in (low, high - 1)]
        return all(bool((evaluate_rows(fixed, end, low.size) >= least).all()) for end in ends)

    def _one_shape(self) -> tuple[Rectangle, Numbers, Numbers] | None:
        """Return the rectangle of all tiles, the strides, and which each row has.

        None where tiles differ, are several rectangles, or do not advance evenly.
        """
        if self.loop is None or not self.base.size or self.parts.mixed.terms or self.conditions:
            return None
        common = _stride(self.parts.moving, self.loop)
        tests = _atoms(self.touch.mask)
        outer = self.touch.mask.free - lane_keys(self.touch) - {self.loop}
        if common is None or outer & self.columns.keys():
            return None
        if any(self.loop in atom.free and not self._always_true(atom, self.columns, self.low, self.high) for atom in tests):
            return None
        first = {**{key: column[:1] for key, column in self.columns.items()}, self.loop: self.low[:1]}
        parts = self._template(first)
        if len(parts) != 1:
            return None
        strides, which = np.unique(common + self.slope, return_inverse=True)
        return parts[0], strides, which

    def dense(self) -> list[ReferenceStream]:
        """Return the rows as runs of adjacent tiles, one stream for each stride.

        Empty where tiles are not adjacent.
        """
        shape = self._one_shape()
        if shape is None:
            return []
        part, strides, which = shape
        one_run = not (part.rows > 1 and part.run < part.pitch)
        if not one_run or any(abs(int(stride)) != part.bytes for stride in strides):
            return []
        return [self._runs(int(stride), which == number, (part,)) for number, stride in enumerate(strides)]

    def grouped(self) -> list[ReferenceStream]:
        """Return adjacent tiles of a loop as one rectangle, of very many tiles.

        It is accessed when its first tile is. Empty where there are fewer tiles, or they are not adjacent.
        """
        total = int(np.maximum(self.high - self.low, 0).sum())
        shape = self._one_shape() if total > MAX_TILES else None
        if shape is None:
            return []
        part, strides, which = shape
        size = 1 << (-(-total // MAX_TILES) - 1).bit_length()
        if part.run < SECTOR_BYTES or any(joined(part, int(stride), size) is None for stride in strides):
            return []
        return [
            stream
            for number, stride in enumerate(strides.tolist())
            for stream in self._groups(part, stride, size, np.flatnonzero(which == number))
        ]

    def _groups(self, part: Rectangle, stride: int, size: int, rows: Numbers) -> Iterator[ReferenceStream]:
        """Yield groups of so many tiles of these rows, then what is left of each."""
        count = np.maximum(self.high - self.low, 0)[rows]
        whole, left = count // size, count % size
        of = np.repeat(np.arange(rows.size), whole)
        first = (np.arange(of.size) - (np.cumsum(whole) - whole)[of]) * size
        yield self._group(part, stride, size, rows[of], first)
        for tiles in np.unique(left[left > 0]).tolist():
            some = left == tiles
            yield self._group(part, stride, tiles, rows[some], (whole * size)[some])

    def _group(self, part: Rectangle, stride: int, size: int, rows: Numbers, first: Numbers) -> ReferenceStream:
        rectangle = joined(part, stride, size)
        lowest = first + size - 1 if stride < 0 else first
        base = self.base[rows] + stride * (self.low[rows] + lowest)
        time = self.schedule.times(self.program[rows], self.work[rows] + first * self.step)
        return ReferenceStream(base, time, self.program[rows], self.partitions[rows], (rectangle,) if rectangle else ())

    def _runs(self, stride: int, chosen: NDArray[np.bool_], parts: tuple[Rectangle, ...]) -> ReferenceStream:
        base, count = (self.base + stride * self.low)[chosen], (self.high - self.low)[chosen]
        rows = self.time[chosen], self.program[chosen], self.partitions[chosen]
        return ReferenceStream(base, *rows, parts, count, stride, self.step, self.work[chosen], self.schedule)

    def expanded(self) -> Iterator[ReferenceStream]:
        """Yield the rows with their loop enumerated.

        They go by the shape of each execution's accesses.
        """
        base, time, columns, program, partitions = self.base, self.time, self.columns, self.program, self.partitions
        if self.loop is not None:
            times = self.high - self.low
            total = int(times.sum())
            if total > MAX_EXECUTIONS:
                raise ValueError(f"{total} executions are too many to enumerate")
            row = np.repeat(np.arange(times.size), times)
            iteration = np.arange(total) - (np.cumsum(times) - times)[row]
            index = self.low[row] + iteration
            columns = {key: column[row] for key, column in columns.items()}
            columns[self.loop] = index
            base = base[row] + evaluate_rows(self.parts.moving, {self.loop: index}, total) + self.slope[row] * index
            time = self.schedule.times(program[row], self.work[row] + iteration * self.step)
            program, partitions = program[row], partitions[row]
        lanes = lane_keys(self.touch)
        loose, mixed = split_lanes(self.parts.mixed, lanes)
        if loose.terms:
            base = base + evaluate_rows(loose, columns, base.size)
        met = np.ones(base.size, dtype=bool)
        for condition in self.conditions:
            met &= evaluate_rows(condition, columns, base.size) != 0
        keys = _outer_columns(mixed, lanes, columns, base.size)
        for atom in _atoms(self.touch.mask):
            values = clipped(atom, columns, self.lanes, base.size) if isinstance(atom, Test) else None
            keys += [values] if values is not None else _outer_columns(poly(atom), lanes, columns, base.size)
        representative, group = _group_rows(keys or [np.zeros(base.size, dtype=np.int64)], met)
        residue = None
        some = representative[[0, representative.size // 2, -1]] if representative.size else representative
        if any(self._has_short_runs(_rows_of(columns, some[number : number + 1])) for number in range(some.size)):
            residue = base % self.least_bytes
            representative, group = _group_rows([*keys, residue], met)
        inside = np.flatnonzero(met)
        rest = _chosen(time, inside), _chosen(program, inside), _chosen(partitions, inside)
        alive = ReferenceStream(_chosen(base, inside), *rest, ())
        if representative.size > MAX_TEMPLATES:
            of_shapes = None if residue is None else residue[representative]
            offset, of_rows = self.parts.lanes + mixed, _rows_of(columns, representative)
            found = runs_of_shapes(self.touch, offset, self.lanes, of_rows, of_shapes, self.least_bytes)
            yield from self._in_pieces(found, alive, group)
            return
        templates = [
            self._template(_rows_of(columns, at), None if residue is None else residue[at]) for at in representative[:, None]
        ]
        shapes = distinct_shapes(templates)
        for number, parts in enumerate(shapes.parts):
            one = np.flatnonzero(shapes.shape[group] == number)
            rest = _chosen(alive.time, one), _chosen(alive.program, one), _chosen(alive.partitions, one)
            yield ReferenceStream(_chosen(alive.base, one) + shapes.shift[_chosen(group, one)], *rest, parts)

    def _in_pieces(self, shapes: ShapeRuns, alive: ReferenceStream, group: Numbers) -> Iterator[ReferenceStream]:
        """Yield executions of very many shapes as runs of bytes.

        `group` is the shape of each.
        """
        for one, begin, size in shapes.pieces(group):
            rest = alive.time[one], alive.program[one], alive.partitions[one]
            yield ReferenceStream(alive.base[one] + begin, *rest, (Rectangle(0, 1, size, size),))

    def _has_short_runs(self, columns: Mapping[str, Numbers]) -> bool:
        """Return whether an execution accesses less in one piece than the L2 moves."""
        return any(part.run < self.least_bytes for part in self._template(columns))

    def _template(self, columns: Mapping[str, Numbers], residue: Numbers | None = None) -> tuple[Rectangle, ...]:
        """Return the rectangles that one execution accesses, relative to its start.

        They are what the L2 moves where `residue`, the start's place in such a piece, is given.
        """
        values: dict[str, Numbers] = {**{key: column[0] for key, column in columns.items()}, **self.lanes}
        shape = self.touch.shape or (1,)
        _, mixed = split_lanes(self.parts.mixed, lane_keys(self.touch))
        offsets = np.broadcast_to(numeric(self.parts.lanes + mixed, values), shape).astype(np.int64)
        mask = np.broadcast_to(numeric(self.touch.mask, values) != 0, shape)
        if residue is not None:
            return tuple(rectangles(pieces(offsets[mask], residue, self.least_bytes), self.least_bytes))
        return tuple(rectangles(offsets[mask], self.touch.element_bytes))


def _chosen(column: Column, rows: Numbers) -> Column:
    """Return these rows, each once and in order; the column itself where they are all."""
    return column if rows.size == column.size else column[rows]


def _rows_of(columns: Mapping[str, Numbers], rows: Numbers) -> dict[str, Numbers]:
    return {key: column[rows] for key, column in columns.items()}


def _outer_columns(value: Poly, inner: frozenset[str], columns: Mapping[str, Numbers], count: int) -> list[Numbers]:
    """Return columns that decide an expression together with its `inner` indices."""
    return [evaluate_rows(part, columns, count) for part in dict.fromkeys(outer_parts(value, inner))]


def _atoms(mask: Poly) -> list[Atom]:
    return list({atom.key: atom for monomial in mask.terms for atom in monomial}.values())


def _group_rows(keys: Sequence[Numbers], alive: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
    """Group rows that agree in all keys.

    Return the first row of each group, and the group of each live row.
    """
    rows = np.flatnonzero(alive)
    if not rows.size:
        return rows, rows
    moving = packed([_chosen(key, rows) for key in keys])
    if not moving:
        return rows[:1], np.zeros(rows.size, dtype=np.int64)
    order = sorted_rows(moving)
    new = first_of_groups(moving, order)
    group = np.empty(rows.size, dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    return rows[order[new]], group


def _linear(value: Poly, loop: str | None) -> bool:
    """Return whether the loop's index is in no floor, minimum or product with itself."""
    return all(
        sum(1 for atom in monomial if loop in atom.free) <= 1
        and all(isinstance(atom, Symbol) for atom in monomial if loop in atom.free)
        for monomial in value.terms
    )


def _stride(moving: Poly, loop: str) -> int | None:
    """Return the bytes between the starts of two iterations.

    None unless the address is linear in the loop's index.
    """
    if not moving.terms:
        return 0
    if len(moving.terms) != 1:
        return None
    ((monomial, coefficient),) = moving.terms.items()
    return int(coefficient) if len(monomial) == 1 and isinstance(monomial[0], Symbol) and monomial[0].key == loop else None


def unrolled(found: ReferenceStream, count: Numbers) -> ReferenceStream:
    """Return runs of tiles as single tiles. Raises `ValueError` for too many."""
    total = int(count.sum())
    if total > MAX_EXECUTIONS:
        raise ValueError(f"{total} executions are too many to enumerate")
    row = np.repeat(np.arange(count.size), count)
    iteration = np.arange(total) - (np.cumsum(count) - count)[row]
    base, time = found.base[row] + found.stride * iteration, found.times(row, iteration)
    return ReferenceStream(base, time, found.program[row], found.partitions[row], found.parts)
