"""Split the address and mask of an access into terms of programs, loops and lanes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.accesses.values import lane_symbol
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Atom, Choice, Poly, Sum, Symbol, Test, parts, poly
from ioaware.analysis.ir.sectors.lanes import numeric

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Address:
    """Hold the terms of an address.

    `fixed` depends on programs and outer loops, `moving` on the innermost loop, `lanes` on the tile.

    `slope` is the factor of the innermost loop's index that depends on programs and outer loops, as in a sweep whose direction
    alternates. `mixed` are other terms with two or more of lanes, the innermost loop, and other indices.
    """

    fixed: Poly
    moving: Poly
    lanes: Poly
    mixed: Poly
    slope: Poly = ZERO


def address(touch: Touch, loop: str | None) -> Address:
    """Split the address of an access; `loop` is the key of the innermost loop's index."""
    lanes = lane_keys(touch)
    parts: list[dict[object, object]] = [{}, {}, {}, {}, {}]
    for monomial, coefficient in _by_branch(touch.target.offset, lanes | {loop}).terms.items():
        free = frozenset[str]().union(*(atom.free for atom in monomial))
        of_lanes, of_loop = bool(free & lanes), loop is not None and loop in free
        factor = None if of_lanes or not of_loop else _without_index(monomial, loop)
        if factor:
            parts[4][factor] = coefficient
            continue
        outer = bool(free - lanes - {loop})
        at = 3 if of_lanes + of_loop + outer > 1 else 2 if of_lanes else 1 if of_loop else 0
        parts[at][monomial] = coefficient
    fixed, moving, of_tile, mixed, slope = (Poly(part) for part in parts)  # pyright: ignore[reportArgumentType]
    return Address(fixed, moving, of_tile, mixed, slope)


def _by_branch(value: Poly, indices: frozenset[str | None]) -> Poly:
    """Write `a if c else b` as c a + (1 - c) b.

    Only where the condition has none of these indices, and a or b has.
    """
    out = ZERO
    for monomial, coefficient in value.terms.items():
        product = poly(coefficient)
        for atom in monomial:
            split = isinstance(atom, Choice) and not atom.condition.free & indices and atom.free & indices
            product = product * (_sum_of_branches(atom) if isinstance(atom, Choice) and split else poly(atom))
        out = out + product
    return out


def _sum_of_branches(atom: Choice) -> Poly:
    return atom.condition * atom.then + (ONE - atom.condition) * atom.other


def _without_index(monomial: tuple[Atom, ...], loop: str | None) -> tuple[Atom, ...] | None:
    """Return the other factors of a monomial with the loop's index as one factor.

    None where the index is within others too.
    """
    rest = tuple(atom for atom in monomial if not (isinstance(atom, Symbol) and atom.key == loop))
    return None if len(rest) != len(monomial) - 1 or any(loop in atom.free for atom in rest) else rest


def lane_keys(touch: Touch) -> frozenset[str]:
    """Return the keys of an access's lane indices."""
    return frozenset(lane_symbol(d, size).key for d, size in enumerate(touch.shape) if size > 1)


def lane_values(touch: Touch) -> dict[str, Numbers]:
    """Return the values of each lane index along its dimension of the tile."""
    grid = np.indices(touch.shape or (1,), dtype=np.int64, sparse=True)
    return {lane_symbol(d, size).key: grid[d] for d, size in enumerate(touch.shape) if size > 1}


def evaluate_rows(value: Poly, columns: Mapping[str, Numbers], count: int) -> Numbers:
    """Return the value of a polynomial for each row of the columns, to be read only."""
    return np.broadcast_to(numeric(value, columns), (count,)).astype(np.int64, copy=False)


def split_lanes(value: Poly, lanes: frozenset[str]) -> tuple[Poly, Poly]:
    """Return the terms without lane indices, and those with."""
    fixed = {m: c for m, c in value.terms.items() if not any(atom.free & lanes for atom in m)}
    return Poly(fixed), Poly({m: c for m, c in value.terms.items() if m not in fixed})


def outer_parts(value: Poly, inner: frozenset[str]) -> Iterator[Poly]:
    """Yield the largest parts of an expression that are free of the `inner` indices.

    The other indices decide the expression through these parts alone. Why: programs differ in more indices than tiles do, as
    in `(p // columns * BLOCK + lane) % M`.
    """
    fixed, moving = split_lanes(value, inner)
    if fixed.free:
        yield fixed
    for monomial in moving.terms:
        if factor := tuple(atom for atom in monomial if not atom.free & inner):
            yield Poly({factor: 1})
        for atom in monomial:
            if atom.free & inner:
                bound = inner | {atom.index.key} if isinstance(atom, Sum) else inner
                for part in parts(atom):
                    yield from outer_parts(part, bound)


def clipped(test: Test, columns: Mapping[str, Numbers], lanes: Mapping[str, Numbers], count: int) -> Numbers | None:
    """Return the lane-free side of a test, clipped where all lanes or none satisfy it.

    None where the test mixes lanes with other indices.
    """
    fixed, moving = split_lanes(test.value, frozenset(lanes))
    if moving.free - lanes.keys():
        return None
    of_lanes = numeric(moving, lanes)
    low, high = int(of_lanes.min()), int(of_lanes.max())
    return np.clip(evaluate_rows(fixed, columns, count), -high - 1, -low + 1)
