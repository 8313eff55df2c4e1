"""Sums over an index at many points: no more terms are computed than the points are different in what these depend on.

Points whose terms and bounds are equal are one point. Where terms depend on a length and on the index as `length - step index`
(see `shifts`), all points share one table of cumulative sums. What is left is computed term by term, a chunk of all points'
terms after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ioaware.analysis.formulas import exact_ratio
from ioaware.analysis.formulas.evaluation_frames import Frame, Node
from ioaware.analysis.formulas.exact_ratio import INT64_MAX, Array, Whole

CHUNK = 2**15  # terms held at once: what is computed of them stays in a core's own cache
ENOUGH = 8  # terms of a point from which on it is worth looking for others like it
DENSE = 8  # possible kinds of a point for which a table is faster than to sort them


@dataclass(frozen=True, slots=True)
class Summation:
    """The sum of a term for index = low .. high, 0 where `high` is below `low`; `what` stands in errors."""

    term: Node
    index: str
    low: Node
    high: Node
    what: object
    shift: tuple[str, int] | None = None
    """A symbol that the term depends on only as `symbol - step index`, and the step."""

    def total(self, frame: Frame) -> Whole:
        """At each point of a frame."""
        first, last = (exact_ratio.integer(frame.of(end), self.what) for end in (self.low, self.high))
        if isinstance(first, int) and isinstance(last, int) and last < first:
            return 0
        if frame.size is None:
            return int(self._totals(frame, np.array([first], object), np.array([last], object))[0])
        starts, ends = _array(first, frame.size), _array(last, frame.size)
        terms = _terms(starts, ends)
        found = self._among_equals(frame) if terms >= ENOUGH * frame.size else None
        if found is not None:
            return found
        some = np.flatnonzero(ends >= starts)
        totals = np.zeros(frame.size, object)
        if some.size:  # what a term is made of may have no value at points that have no terms
            inside = frame if some.size == frame.size else frame.part(some, self._names)
            totals[some] = self._from_table(inside, starts[some], ends[some], terms)
        return exact_ratio.column(totals)

    @property
    def _names(self) -> frozenset[str]:
        """What the term depends on but for the index."""
        return self.term.names - {self.index}

    def _among_equals(self, frame: Frame) -> Whole | None:
        """The sum at one point of each kind, given to all of the kind; None where most are of a kind of their own."""
        asked = dict.fromkeys((self.low, self.high, *outside(self.term, frozenset({self.index}))))
        found = kinds([part for node in asked for part in frame.kept(node)], cast(int, frame.size))
        if found is None or 2 * found[0].size > cast(int, frame.size):
            return None
        first, kind = found
        total = self.total(frame.part(first, self.low.names | self.high.names | self._names))
        return total if isinstance(total, int) else total.taken(kind)

    def _from_table(self, frame: Frame, starts: Array, ends: Array, terms: int) -> Array:
        """The sums of points that all have terms, as differences of cumulative sums where these are fewer than all terms."""
        table = self._table(frame, starts, ends) if terms >= ENOUGH * starts.size else None
        if table is None or 2 * table.size > terms:
            return self._totals(frame, starts, ends)
        try:
            sums = self._cumulated(frame, table)
        except (ZeroDivisionError, ValueError):
            # Of a term in a gap between what the points ask for, maybe. One that they do ask for raises it here again.
            return self._totals(frame, starts, ends)
        return sums[table.ends] - sums[table.starts]

    def _table(self, frame: Frame, starts: Array, ends: Array) -> _Table | None:
        """Which terms there are in all; None where nobody can tell which points share them."""
        symbols = {name: frame.symbol(name) for name in sorted(self._names)}
        least, most, rest = starts, ends, np.zeros(starts.size, np.int64)
        if self.shift is not None:
            symbol, step = self.shift
            length = _array(symbols.pop(symbol), starts.size)
            least, most, rest = length // step - ends, length // step - starts, length % step
        found = kinds([*symbols.values(), exact_ratio.column(rest)], starts.size)
        if found is None or object in (least.dtype, most.dtype):
            return None
        first, kind = found
        low, high = np.full(first.size, INT64_MAX), np.full(first.size, -INT64_MAX)
        np.minimum.at(low, kind, least)
        np.maximum.at(high, kind, most)
        before = np.cumsum(high - low + 1) - (high - low + 1) - low
        return _Table(first, low, high, rest[first], before[kind] + least, before[kind] + most + 1)

    def _cumulated(self, frame: Frame, table: _Table) -> Array:
        """The sum of all terms before each place of a table, and of all of them."""
        symbol, step = self.shift or (self.index, 1)
        points = frame.part(table.first, self._names - {symbol})
        found: list[Array] = [np.zeros(1, np.int64)]
        for chunk in _chunks(table.high - table.low + 1):
            number = (table.low[chunk.point] + chunk.place) * step + table.rest[chunk.point]
            size = chunk.point.size
            inside = Frame(size, {self.index: 0, symbol: exact_ratio.column(number)}, points, chunk.point)
            found.append(_array(exact_ratio.integer(inside.of(self.term), self.what), size))
        terms = exact_ratio.column(np.concatenate(found))
        fits = max(-terms.low, terms.high) * terms.values.size <= INT64_MAX
        return np.cumsum(terms.values if fits else terms.values.astype(object))

    def _totals(self, frame: Frame, starts: Array, ends: Array) -> Array:
        """The sums of points that all have terms, all computed."""
        totals, most = np.zeros(starts.shape, np.int64), 0
        for chunk in _chunks(ends - starts + 1):
            local = exact_ratio.column(starts[chunk.point] + chunk.place)
            at = None if frame.size is None else chunk.point
            terms = exact_ratio.integer(Frame(chunk.point.size, {self.index: local}, frame, at).of(self.term), self.what)
            largest = abs(terms) if isinstance(terms, int) else max(-terms.low, terms.high)
            most += largest * int(chunk.owned.max())
            if most > INT64_MAX:
                totals = totals.astype(object, copy=False)
            totals[chunk.points] += _added(terms, chunk.owned, wide=most > INT64_MAX)
        return totals


@dataclass(frozen=True, slots=True)
class _Table:
    """Terms by number, of kinds of points: from `low` to `high` of each kind, one kind after the other."""

    first: Array
    """A point of each kind."""
    low: Array
    high: Array
    rest: Array
    """What the symbol is more than step times the number."""
    starts: Array
    """Of each point: where in the table its first term is."""
    ends: Array
    """And where the first one is that is no more its own."""

    @property
    def size(self) -> int:
        return int((self.high - self.low + 1).sum())


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some terms of points that stand in a line, each point's after one another: whose they are and the how manieth of it."""

    points: slice
    owned: Array
    """Terms in the chunk of each of these points, at least one."""
    point: Array
    place: Array


def _chunks(counts: Array) -> Iterator[_Chunk]:
    """All terms of points that have so many each, at least one."""
    ends = np.cumsum(counts)
    for begin in range(0, int(ends[-1]), CHUNK):
        end = min(begin + CHUNK, int(ends[-1]))
        points = slice(int(np.searchsorted(ends, begin, "right")), int(np.searchsorted(ends, end - 1, "right")) + 1)
        starts = ends[points] - counts[points]
        owned = (np.minimum(ends[points], end) - np.maximum(starts, begin)).astype(np.int64)
        place = np.arange(begin, end) - np.repeat(starts, owned)
        yield _Chunk(points, owned, np.repeat(np.arange(points.start, points.stop), owned), place)


def _added(terms: Whole, owned: Array, *, wide: bool) -> Array:
    """The sums of so many terms after another."""
    if isinstance(terms, int):
        return owned.astype(object if wide else np.int64) * terms
    values = terms.values.astype(object, copy=False) if wide else terms.values
    return np.add.reduceat(values, np.cumsum(owned) - owned)


def _terms(starts: Array, ends: Array) -> int:
    """How many there are in all."""
    longest = int(ends.max()) - int(starts.min()) + 1
    fits = abs(int(starts.min())) + abs(int(ends.max())) + longest * starts.size <= INT64_MAX
    return (
        int(np.maximum(ends - starts + 1, 0).sum())
        if fits
        else sum(max(0, int(b) - int(a) + 1) for a, b in zip(starts, ends, strict=True))
    )


def _array(value: Whole, size: int) -> Array:
    return np.full(size, value, np.int64 if abs(value) <= INT64_MAX else object) if isinstance(value, int) else value.values


def outside(node: Node, indices: frozenset[str]) -> Iterator[Node]:
    """The largest parts that change with none of the indices, nor with those of sums inside; constants apart."""
    if not node.names.isdisjoint(indices):
        inner = indices if node.index is None else indices | {node.index}
        for part in node.parts:
            yield from outside(part, inner)
    elif node.names:
        yield node


def kinds(values: Iterable[Whole], size: int) -> tuple[Array, Array] | None:
    """One point of each kind, and which kind each point is, where these values are told apart; None if that takes too long."""
    code: Any = np.zeros(size, np.int64)
    scale = 1
    for value in values:
        if isinstance(value, int):
            continue
        value = exact_ratio.column(value.values)
        width = value.high - value.low + 1
        if scale * width > INT64_MAX:
            return None
        code = code + (value.values - value.low) * scale
        scale *= width
    if scale > DENSE * size:
        _, first, kind = np.unique(cast(Array, code), return_index=True, return_inverse=True)
        return first, kind
    seen = np.full(scale, -1)
    seen[code] = np.arange(size)
    there = np.flatnonzero(seen >= 0)
    first = seen[there]
    seen[there] = np.arange(there.size)
    return first, seen[code]
