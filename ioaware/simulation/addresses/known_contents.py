"""Find the values that a kernel loads, where host code built the contents.

They are labels, sequence lengths or rows of a gather. A value that each program loads once becomes an index of the program, as
its own number is. One that differs from lane to lane or in a loop stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ioaware.analysis.ir.accesses.access_log import Condition, Loop, Scope, Touch
from ioaware.analysis.ir.algebra.constructors import rebuild
from ioaware.analysis.ir.algebra.poly import Atom, Poly, Symbol, Unknown, poly
from ioaware.analysis.ir.algebra.predicates import resolve_tests
from ioaware.analysis.ir.loops.access_totals import unknowns
from ioaware.analysis.ir.sectors.lanes import numeric

Numbers = NDArray[np.int64]
LOADED = re.compile(r"i(?P<bits>\d+) (?P<argument>\S+)")
"""Source of a value that is the same whenever it is loaded from this argument."""


@dataclass(frozen=True, slots=True)
class KnownContents:
    """Elements of whole storages by argument, and values of unknowns by name."""

    elements: Mapping[str, NDArray[np.generic]] = field(default_factory=dict[str, NDArray[np.generic]])
    given: Mapping[str, int] = field(default_factory=dict[str, int])

    def resolve(self, touches: Sequence[Touch], indices: Mapping[str, Numbers]) -> tuple[list[Touch], dict[str, Numbers]]:
        """Return the accesses with known values, and the indices with them.

        `indices` has the programs' indices, an element for each program.
        """
        columns, known = dict(indices), dict[str, Poly]()
        while found := self._next(touches, columns, known):
            known |= found
            touches = [_with_values(touch, known) for touch in touches]
        return list(touches), columns

    def _next(self, touches: Sequence[Touch], columns: dict[str, Numbers], known: Mapping[str, Poly]) -> dict[str, Poly]:
        """Return the values of unknowns with known addresses; add their columns."""
        found: dict[str, Poly] = {}
        for unknown in {one.key: one for touch in touches for one in _unknowns_of(touch)}.values():
            if unknown.key in known:
                continue
            if unknown.name in self.given:
                found[unknown.key] = poly(self.given[unknown.name])
                continue
            loaded = self._loaded(unknown, columns)
            if loaded is None:
                continue
            low, high = int(loaded.min(initial=0)), int(loaded.max(initial=0))
            if low == high:
                found[unknown.key] = poly(low)
            else:
                symbol = Symbol(f"loaded {unknown.key}", poly(low), poly(high))
                columns[symbol.key], found[unknown.key] = loaded, poly(symbol)
        return found

    def _loaded(self, unknown: Unknown, columns: Mapping[str, Numbers]) -> Numbers | None:
        """Return what each program loads; None where it is not known."""
        source = LOADED.fullmatch(unknown.source)
        elements = self.elements.get(source["argument"]) if source else None
        needed = frozenset[str]().union(*(arg.free for arg in unknown.args))
        if source is None or elements is None or not needed <= columns.keys():
            return None
        if elements.dtype.kind not in "iub" or elements.dtype.itemsize * 8 != max(8, int(source["bits"])):
            return None
        count = next(iter(columns.values())).size
        offset, *rest = (numeric(arg, columns) for arg in (unknown.args[0] * elements.dtype.itemsize, *unknown.args[1:]))
        condition, mask, other = *rest, *(1, 0)[len(rest) - 1 :]
        at, active = offset // elements.dtype.itemsize, (np.asarray(condition) != 0) & (np.asarray(mask) != 0)
        at, active = np.broadcast_to(at, count), np.broadcast_to(active, count)
        inside = (at >= 0) & (at < elements.size)
        if not elements.size or (offset % elements.dtype.itemsize).any() or (active & ~inside).any():
            return None
        return np.where(active, elements[np.where(inside, at, 0)].astype(np.int64), other).astype(np.int64)


def _unknowns_of(touch: Touch) -> Iterator[Unknown]:
    """Yield the unknowns of an access, and those in their addresses."""
    yield from _nested(touch.target.offset)
    yield from _nested(touch.mask)
    for scope in touch.scopes:
        for part in (scope.truth,) if isinstance(scope, Condition) else (scope.low, scope.high):
            yield from _nested(part)


def _nested(value: Poly) -> Iterator[Unknown]:
    for unknown in unknowns(value):
        yield unknown
        for arg in unknown.args:
            yield from _nested(arg)


def _with_values(touch: Touch, known: Mapping[str, Poly]) -> Touch:
    def leaf(atom: Atom) -> Poly | None:
        if isinstance(atom, Unknown):
            return known.get(atom.key) or poly(atom.at(rebuild(arg, leaf) for arg in atom.args))
        return None

    def value(of: Poly) -> Poly:
        return rebuild(of, leaf) if unknowns(of) else of

    def scope(one: Scope) -> Scope:
        if isinstance(one, Loop):
            return replace(one, low=value(one.low), high=value(one.high))
        return Condition(resolve_tests(value(one.truth)))

    target = replace(touch.target, offset=value(touch.target.offset))
    return replace(touch, target=target, mask=resolve_tests(value(touch.mask)), scopes=tuple(map(scope, touch.scopes)))
