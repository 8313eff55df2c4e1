"""Count sectors lane by lane.

Mask and address within a sector depend on lanes alone there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod

import numpy as np
from numpy.typing import NDArray

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.accesses.values import lane_symbol
from ioaware.analysis.ir.algebra.constructors import mod, substitute
from ioaware.analysis.ir.algebra.poly import (
    Atom,
    Choice,
    Coefficient,
    Extreme,
    Floor,
    Monomial,
    Poly,
    Sum,
    Symbol,
    Test,
    parts,
    poly,
)
from ioaware.analysis.ir.algebra.predicates import resolve_tests
from ioaware.analysis.ir.sums.reindex import floors
from ioaware.machine.model import SECTOR_BYTES

LARGEST_ENUMERATION = 1 << 16
MAX_TERMS = 1 << 22
"""Terms of sums that are in memory at one time."""


def split_lanes(touch: Touch) -> Touch:
    """Split a lane used as floor(lane / D) and lane mod D into two dimensions."""
    for dimension, size in enumerate(touch.shape):
        lane = lane_symbol(dimension, size)
        for floor in (*floors(touch.target.offset), *floors(touch.mask)):
            divisor = int(floor.denominator.constant or 0)
            if floor.numerator == poly(lane) and 1 < divisor < size and size % divisor == 0:
                shape = (*touch.shape[:dimension], divisor, *touch.shape[dimension + 1 :], size // divisor)
                rows = lane_symbol(len(touch.shape), size // divisor)
                by = {lane.key: divisor * poly(rows) + poly(lane_symbol(dimension, divisor))}
                target = replace(touch.target, offset=substitute(touch.target.offset, by))
                return split_lanes(replace(touch, shape=shape, mask=resolve_tests(substitute(touch.mask, by)), target=target))
    return touch


def count_lanes(touch: Touch, mask: Poly, address: Poly) -> Poly | None:
    """Count sectors lane by lane.

    None where mask or address depend on more than the lanes.
    """
    lanes = {lane_symbol(d, size).key: d for d, size in enumerate(touch.shape) if size > 1}
    inside = Poly({m: c for m, c in address.terms.items() if any(atom.free & lanes.keys() for atom in m)})
    rest = address - inside
    start = mod(rest, poly(SECTOR_BYTES)).constant
    free = inside.free | mask.free
    if start is None or free - lanes.keys() or prod(touch.shape) > LARGEST_ENUMERATION:
        return None
    grid = np.indices(touch.shape or (1,))
    values = {key: grid[d] for key, d in lanes.items()}
    active = np.broadcast_to(numeric(mask, values) != 0, touch.shape or (1,))
    bytes_ = np.broadcast_to(numeric(inside, values) + int(start), touch.shape or (1,))[active]
    touched = np.concatenate((bytes_ // SECTOR_BYTES, (bytes_ + touch.element_bytes - 1) // SECTOR_BYTES))
    return poly(int(np.unique(touched).size))


def numeric(value: Poly, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Evaluate an expression at arrays of its symbols."""
    return Evaluation(values)(value)


class Evaluation:
    """Evaluate expressions at arrays of their symbols, each atom once.

    A result may be one of the arrays itself.
    """

    def __init__(self, values: Mapping[str, np.ndarray]) -> None:
        self._values = values
        self._known: dict[Atom, np.ndarray] = {}

    def __call__(self, value: Poly) -> np.ndarray:
        """Return the value of an expression."""
        terms = sorted((self._term(*each) for each in value.terms.items()), key=np.size)
        return reduce(np.add, terms) if terms else np.asarray(0)

    def _term(self, factors: Monomial, coefficient: Coefficient) -> np.ndarray:
        """Return a product.

        The smallest arrays come first: most are rows or columns of the whole.
        """
        each = sorted(map(self._atom, factors), key=np.size)
        if int(coefficient) != 1 or not each:
            each.insert(0, np.asarray(int(coefficient)))
        return reduce(np.multiply, each)

    def _atom(self, atom: Atom) -> np.ndarray:
        if atom not in self._known:
            self._known[atom] = self._new(atom)
        return self._known[atom]

    def _new(self, atom: Atom) -> np.ndarray:
        if isinstance(atom, Symbol):
            value = np.asarray(self._values[atom.key])
            return value if value.dtype == np.int64 else value * np.asarray(1)
        if isinstance(atom, Sum):
            return _numeric_sum(atom, self._values)
        return _numeric_atom(atom, [self(part) for part in parts(atom)])


def _numeric_sum(atom: Sum, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Evaluate a sum from running totals, one for all rows with the same terms."""
    names = sorted(atom.body.free & values.keys())
    ends = numeric(atom.low, values), numeric(atom.high, values)
    low, high, *columns = np.broadcast_arrays(*ends, *(values[name] for name in names))
    shape, low, high = low.shape, low.ravel(), high.ravel()
    kinds: NDArray[np.int64]
    kind: NDArray[np.int64]
    kinds, kind = np.unique(np.stack([np.zeros_like(low), *(one.ravel() for one in columns)]), axis=1, return_inverse=True)
    first, last = int(low.min(initial=0)), int(high.max(initial=0))
    steps, terms, kind = np.arange(first, last), last - first, kind.reshape(-1)
    total = np.zeros(low.size, dtype=np.int64)
    at_once = max(1, MAX_TERMS // max(1, terms))
    for begin in range(0, kinds.shape[1], at_once):
        part = kinds[1:, begin : begin + at_once, None]
        running = np.zeros((part.shape[1], terms + 1), dtype=np.int64)
        each = numeric(atom.body, {**dict(zip(names, part, strict=True)), atom.index.key: steps})
        np.cumsum(np.broadcast_to(each, (part.shape[1], terms)), axis=1, out=running[:, 1:])
        here = np.flatnonzero((kind >= begin) & (kind < begin + at_once) & (low < high))
        which = kind[here] - begin
        total[here] = running[which, high[here] - first] - running[which, low[here] - first]
    return total.reshape(shape)


def _numeric_atom(atom: Atom, inner: Sequence[np.ndarray]) -> np.ndarray:
    match atom:
        case Floor():
            return inner[0] // inner[1]
        case Extreme():
            fold = np.minimum if atom.least else np.maximum
            result = inner[0]
            for other in inner[1:]:
                result = fold(result, other)
            return result
        case Test():
            return (inner[0] == 0 if atom.equal else inner[0] >= 0).astype(np.int64)
        case Choice():
            return np.where(inner[0] != 0, inner[1], inner[2])
        case _:
            raise TypeError(f"no value of {atom!r}")
