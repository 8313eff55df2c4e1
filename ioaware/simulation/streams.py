"""From the accesses of a launch to touches of units of blocks, in time: what the cache model is fed with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.algebra.poly import Atom, Poly, Symbol, Test
from ioaware.analysis.ir.sectors.lanes import numeric
from ioaware.simulation.address_blocks import Blocks, Masks, Rectangle, rectangles
from ioaware.simulation.affine import address, all_of, clipped, lane_keys, lane_values, split_lanes
from ioaware.simulation.schedule import Schedule
from ioaware.simulation.timeline import Executions

Numbers = NDArray[np.int64]
Times = NDArray[np.float64]
MAX_EXECUTIONS = 1 << 24
MAX_TEMPLATES = 4096


@dataclass(frozen=True, slots=True)
class Starts:
    """Where executions of one shape start, and when, and whose they are: rows, or dense runs of `count` tiles of `stride`."""

    base: Numbers
    time: Times
    program: Numbers
    sides: Numbers
    parts: tuple[Rectangle, ...]
    count: Numbers | None = None
    stride: int = 0
    step: float = 0.0


@dataclass(frozen=True, slots=True)
class Raw:
    """Touches of units before they are merged, one array a column."""

    time: Times
    unit: Numbers
    mask: Masks
    sides: Numbers
    program: Numbers


def starts(touch: Touch, found: Executions, programs: Schedule) -> list[Starts]:
    """Return the executions of a touch by shape. Raises `ValueError` of too many.

    Programs that do the same at the same time are one.
    """
    rows = _Rows(touch, found, programs)
    dense = rows.dense()
    return [dense] if dense else list(rows.expanded())


class _Rows:
    """The rows of one `Executions`, those that do the same at the same time together."""

    def __init__(self, touch: Touch, found: Executions, programs: Schedule) -> None:
        self.touch = touch
        self.loop = found.loop.index.key if found.loop else None
        self.parts = address(touch, self.loop)
        self.lanes = lane_values(touch)
        self.conditions = found.conditions
        self.step = found.step
        columns = dict(found.columns)
        count = found.program.size
        low = np.zeros(count, dtype=np.int64) if found.low is None else found.low
        high = np.ones(count, dtype=np.int64) if found.high is None else found.high
        time = found.time + programs.start[found.program]
        base = all_of(self.parts.fixed, columns, count)
        sides = (1 << (programs.slot[found.program] & 1)).astype(np.int64)
        keys = [base, low, np.round(time).astype(np.int64), *self._classes(columns, count)]
        keep, group = _groups(keys, high > low)
        self.columns = {key: column[keep] for key, column in columns.items()}
        self.base, self.low, self.time, self.program = base[keep], low[keep], time[keep], found.program[keep]
        alive = high > low
        self.high = np.zeros(keep.size, dtype=np.int64)
        np.maximum.at(self.high, group, high[alive])
        self.sides = np.zeros(keep.size, dtype=np.int64)
        np.bitwise_or.at(self.sides, group, sides[alive])

    def _classes(self, columns: Mapping[str, Numbers], count: int) -> Iterator[Numbers]:
        """Yield what else tells rows apart: indices in masks, conditions and tangled terms."""
        known = columns.keys() - {""}
        for poly in (self.parts.tangled, *self.conditions):
            for key in sorted(poly.free & known):
                yield columns[key]
        for atom in _atoms(self.touch.mask):
            if not atom.free & known:
                continue
            values = None
            if isinstance(atom, Test) and self.loop not in atom.free:
                values = clipped(atom, columns, self.lanes, count)
            yield from [values] if values is not None else [columns[key] for key in sorted(atom.free & known)]

    def _met(self, atom: object, columns: Mapping[str, Numbers], low: Numbers, high: Numbers) -> bool | None:
        """Whether all lanes meet a test of the loop's index in all iterations; None where that is not simply seen."""
        if not isinstance(atom, Test) or atom.equal:
            return None
        fixed, moving = split_lanes(atom.value, frozenset(self.lanes))
        if moving.free - self.lanes.keys() or not _linear(fixed, self.loop):
            return None
        least = -int(np.min(numeric(moving, self.lanes)))
        ends = [{**columns, self.loop or "": end} for end in (low, high - 1)]
        return all(bool((all_of(fixed, end, low.size) >= least).all()) for end in ends)

    def dense(self) -> Starts | None:
        """Return the rows as runs of tiles that follow each other without gap; None where they do not."""
        if self.loop is None or not self.base.size or self.parts.tangled.terms or self.conditions:
            return None
        stride = _stride(self.parts.moving, self.loop)
        mask_free = self.touch.mask.free
        tests = _atoms(self.touch.mask)
        outer = mask_free - lane_keys(self.touch) - {self.loop}
        if stride is None or outer & self.columns.keys():
            return None
        if any(self.loop in atom.free and not self._met(atom, self.columns, self.low, self.high) for atom in tests):
            return None
        first = {**{key: column[:1] for key, column in self.columns.items()}, self.loop: self.low[:1]}
        parts = self._template(first)
        if len(parts) != 1 or (parts[0].rows > 1 and parts[0].run < parts[0].pitch) or parts[0].bytes != abs(stride):
            return None
        base = self.base + stride * self.low
        return Starts(base, self.time, self.program, self.sides, parts, self.high - self.low, stride, self.step)

    def expanded(self) -> Iterator[Starts]:
        """Return the rows with their loop gone through, by the shape of what each execution touches."""
        base, time, columns, program, sides = self.base, self.time, self.columns, self.program, self.sides
        if self.loop is not None:
            times = self.high - self.low
            total = int(times.sum())
            if total > MAX_EXECUTIONS:
                raise ValueError(f"{total} executions are too many to go through")
            row = np.repeat(np.arange(times.size), times)
            turn = np.arange(total) - (np.cumsum(times) - times)[row]
            index = self.low[row] + turn
            needed = self.parts.tangled.free | self.touch.mask.free | frozenset[str]().union(*(c.free for c in self.conditions))
            columns = {key: column[row] for key, column in columns.items() if key in needed}
            columns[self.loop] = index
            base = base[row] + all_of(self.parts.moving, {self.loop: index}, total)
            time, program, sides = time[row] + turn * self.step, program[row], sides[row]
        lanes = lane_keys(self.touch)
        loose, tangled = split_lanes(self.parts.tangled, lanes)
        if loose.terms:
            base = base + all_of(loose, columns, base.size)
        met = np.ones(base.size, dtype=bool)
        for condition in self.conditions:
            met &= all_of(condition, columns, base.size) != 0
        keys = [columns[key] for key in sorted(tangled.free & columns.keys())]
        for atom in _atoms(self.touch.mask):
            values = clipped(atom, columns, self.lanes, base.size) if isinstance(atom, Test) else None
            keys += [values] if values is not None else [columns[key] for key in sorted(atom.free & columns.keys())]
        representative, group = _groups(keys or [np.zeros(base.size, dtype=np.int64)], met)
        if representative.size > MAX_TEMPLATES:
            raise ValueError(f"{representative.size} shapes of one access are too many to go through")
        inside = np.flatnonzero(met)
        for number, at in enumerate(representative):
            parts = self._template({key: column[at : at + 1] for key, column in columns.items()})
            if parts:
                chosen = inside[group == number] if representative.size > 1 else inside
                yield Starts(base[chosen], time[chosen], program[chosen], sides[chosen], parts)

    def _template(self, columns: Mapping[str, Numbers]) -> tuple[Rectangle, ...]:
        """Return the rectangles that one execution touches after its start."""
        values: dict[str, Numbers] = {**{key: column[0] for key, column in columns.items()}, **self.lanes}
        shape = self.touch.shape or (1,)
        _, tangled = split_lanes(self.parts.tangled, lane_keys(self.touch))
        offsets = np.broadcast_to(numeric(self.parts.lanes + tangled, values), shape).astype(np.int64)
        mask = np.broadcast_to(numeric(self.touch.mask, values) != 0, shape)
        return tuple(rectangles(offsets[mask], self.touch.element_bytes))


def _atoms(mask: Poly) -> list[Atom]:
    return list({atom.key: atom for monomial in mask.terms for atom in monomial}.values())


def _groups(keys: Sequence[Numbers], alive: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
    """Rows that agree in all keys: the first of each group, and the group of each row that is alive."""
    rows = np.flatnonzero(alive)
    if not rows.size:
        return rows, rows
    moving = [key[rows] for key in keys if key[rows].min() != key[rows].max()]
    if not moving:
        return rows[:1], np.zeros(rows.size, dtype=np.int64)
    order = np.lexsort(moving[::-1])
    new = np.zeros(rows.size, dtype=bool)
    new[0] = True
    for key in moving:
        ordered = key[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    group = np.empty(rows.size, dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    return rows[order[new]], group


def _linear(value: Poly, loop: str | None) -> bool:
    """Whether the loop's index is in no floor, minimum or product with itself."""
    return all(
        sum(1 for atom in monomial if loop in atom.free) <= 1
        and all(isinstance(atom, Symbol) for atom in monomial if loop in atom.free)
        for monomial in value.terms
    )


def _stride(moving: Poly, loop: str) -> int | None:
    """Return the bytes between the starts of two iterations; None where that is not a number other than 0."""
    if len(moving.terms) != 1:
        return None
    ((monomial, coefficient),) = moving.terms.items()
    return int(coefficient) if len(monomial) == 1 and isinstance(monomial[0], Symbol) and monomial[0].key == loop else None


def raw(found: Starts, blocks: Blocks) -> Iterator[Raw]:
    """Return the units that these executions touch."""
    if found.count is not None and blocks.plain:
        yield _runs(found, found.count, blocks)
        return
    if found.count is not None:
        found = _unrolled(found, found.count)
    for part in found.parts:
        for low, high in blocks.intervals(found.base, part):
            which, unit, mask = blocks.units(low, high)
            yield Raw(found.time[which], unit, mask, found.sides[which], found.program[which])


def _unrolled(found: Starts, count: Numbers) -> Starts:
    total = int(count.sum())
    if total > MAX_EXECUTIONS:
        raise ValueError(f"{total} executions are too many to go through")
    row = np.repeat(np.arange(count.size), count)
    turn = np.arange(total) - (np.cumsum(count) - count)[row]
    base, time = found.base[row] + found.stride * turn, found.time[row] + found.step * turn
    return Starts(base, time, found.program[row], found.sides[row], found.parts)


def _runs(found: Starts, count: Numbers, blocks: Blocks) -> Raw:
    """Return the units of runs of tiles, each once, when the run gets to it."""
    tile = abs(found.stride)
    start = found.base + found.parts[0].offset
    begin = start if found.stride > 0 else start - tile * (count - 1)
    low, high = blocks.rounded(begin), blocks.rounded(begin + tile * count)
    row, unit, mask = blocks.units(low, high)
    edge = (unit - blocks.first_unit) * blocks.unit_bytes
    if found.stride > 0:
        turn = np.maximum(edge - start[row], 0) // tile
    else:
        turn = np.maximum(start[row] + tile - edge - blocks.unit_bytes, 0) // tile
    return Raw(found.time[row] + turn * found.step, unit, mask, found.sides[row], found.program[row])
