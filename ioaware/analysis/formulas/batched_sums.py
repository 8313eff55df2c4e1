"""Evaluate sums over an index at many points at once.

Equal terms are shared between points.

Points with equal terms and bounds are one point. Where terms depend on `length - step index` alone (see `shift_invariance`),
all points share one table of cumulative sums. Other terms are computed one by one, in chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ioaware.analysis.formulas import exact_ratio
from ioaware.analysis.formulas.evaluation_frames import Frame, Node
from ioaware.analysis.formulas.exact_ratio import INT64_MAX, Array, Whole

CHUNK = 2**15  # terms held at once, so that their values stay in a core's cache
ENOUGH = 8  # least terms of a point for which equal points are searched
DENSE = 8  # most possible kinds of a point for which a table is faster than sorting


@dataclass(frozen=True, slots=True)
class Summation:
    """Sum of a term for index = low .. high, 0 where `high` < `low`.

    Errors quote `what`.
    """

    term: Node
    index: str
    low: Node
    high: Node
    what: object
    shift: tuple[str, int] | None = None
    """A symbol that the term depends on only as `symbol - step index`, and the step."""

    def total(self, frame: Frame) -> Whole:
        """Return the sum at each point of a frame."""
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
        if some.size:  # a term may be undefined at points without terms
            inside = frame if some.size == frame.size else frame.part(some, self._names)
            totals[some] = self._from_table(inside, starts[some], ends[some], terms)
        return exact_ratio.column(totals)

    @property
    def _names(self) -> frozenset[str]:
        """Return the symbols of the term without the index."""
        return self.term.names - {self.index}

    def _among_equals(self, frame: Frame) -> Whole | None:
        """Sum at one point of each group of equal points.

        None where most groups have one point.
        """
        asked = dict.fromkeys((self.low, self.high, *outside(self.term, frozenset({self.index}))))
        found = group_points([part for node in asked for part in frame.kept(node)], cast(int, frame.size))
        if found is None or 2 * found[0].size > cast(int, frame.size):
            return None
        first, kind = found
        total = self.total(frame.part(first, self.low.names | self.high.names | self._names))
        return total if isinstance(total, int) else total.taken(kind)

    def _from_table(self, frame: Frame, starts: Array, ends: Array, terms: int) -> Array:
        """Sum non-empty ranges, by differences of cumulative sums where that is shorter.

        It is shorter where it needs fewer terms.
        """
        table = self._table(frame, starts, ends) if terms >= ENOUGH * starts.size else None
        if table is None or 2 * table.size > terms:
            return self._totals(frame, starts, ends)
        try:
            sums = self._cumulated(frame, table)
        except (ZeroDivisionError, ValueError):
            # A term that no point needs may raise it. A term that is needed raises it again here.
            return self._totals(frame, starts, ends)
        return sums[table.ends] - sums[table.starts]

    def _table(self, frame: Frame, starts: Array, ends: Array) -> _Table | None:
        """Return the distinct terms of all points.

        None where grouping the points is too slow.
        """
        symbols = {name: frame.symbol(name) for name in sorted(self._names)}
        least, most, rest = starts, ends, np.zeros(starts.size, np.int64)
        if self.shift is not None:
            symbol, step = self.shift
            length = _array(symbols.pop(symbol), starts.size)
            least, most, rest = length // step - ends, length // step - starts, length % step
        found = group_points([*symbols.values(), exact_ratio.column(rest)], starts.size)
        if found is None or object in (least.dtype, most.dtype):
            return None
        first, kind = found
        low, high = np.full(first.size, INT64_MAX), np.full(first.size, -INT64_MAX)
        np.minimum.at(low, kind, least)
        np.maximum.at(high, kind, most)
        before = np.cumsum(high - low + 1) - (high - low + 1) - low
        return _Table(first, low, high, rest[first], before[kind] + least, before[kind] + most + 1)

    def _cumulated(self, frame: Frame, table: _Table) -> Array:
        """Return the cumulative sums of a table, with a leading 0."""
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
        """Sum non-empty ranges term by term."""
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
    """Term numbers `low` to `high` of each group of points, one group after the other."""

    first: Array
    """One point of each kind."""
    low: Array
    high: Array
    rest: Array
    """The symbol less step times the term's number."""
    starts: Array
    """For each point, the place of its first term in the table."""
    ends: Array
    """For each point, the place after its last term."""

    @property
    def size(self) -> int:
        return int((self.high - self.low + 1).sum())


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Consecutive terms of consecutive points: each term's point and position."""

    points: slice
    owned: Array
    """Terms in the chunk of each of these points, at least one."""
    point: Array
    place: Array


def _chunks(counts: Array) -> Iterator[_Chunk]:
    """Yield all terms of points that have these many each, at least one."""
    ends = np.cumsum(counts)
    for begin in range(0, int(ends[-1]), CHUNK):
        end = min(begin + CHUNK, int(ends[-1]))
        points = slice(int(np.searchsorted(ends, begin, "right")), int(np.searchsorted(ends, end - 1, "right")) + 1)
        starts = ends[points] - counts[points]
        owned = (np.minimum(ends[points], end) - np.maximum(starts, begin)).astype(np.int64)
        place = np.arange(begin, end) - np.repeat(starts, owned)
        yield _Chunk(points, owned, np.repeat(np.arange(points.start, points.stop), owned), place)


def _added(terms: Whole, owned: Array, *, wide: bool) -> Array:
    """Add up runs of terms of these lengths."""
    if isinstance(terms, int):
        return owned.astype(object if wide else np.int64) * terms
    values = terms.values.astype(object if wide else np.int64, copy=False)
    return np.add.reduceat(values, np.cumsum(owned) - owned)


def _terms(starts: Array, ends: Array) -> int:
    """Return the number of terms of all points."""
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
    """Yield the largest parts that vary with no index; no constants.

    They vary neither with a given index nor with that of an inner sum.
    """
    if not node.names.isdisjoint(indices):
        inner = indices if node.index is None else indices | {node.index}
        for part in node.parts:
            yield from outside(part, inner)
    elif node.names:
        yield node


def group_points(values: Iterable[Whole], size: int) -> tuple[Array, Array] | None:
    """Return one point of each group of equal points, and the group of each point.

    None if too slow.
    """
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
