"""Split the address and mask of an access into terms of programs, loops and lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.accesses.values import lane_symbol
from ioaware.analysis.ir.algebra.poly import Poly, Test
from ioaware.analysis.ir.sectors.lanes import numeric

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Address:
    """Hold the terms of an address.

    `fixed` depends on programs and outer loops, `moving` on the innermost loop, `lanes` on the tile.

    `mixed` are terms with both lanes and other indices, or with both the loop and programs.
    """

    fixed: Poly
    moving: Poly
    lanes: Poly
    mixed: Poly


def address(touch: Touch, loop: str | None) -> Address:
    """Split the address of an access; `loop` is the key of the innermost loop's index."""
    lanes = lane_keys(touch)
    parts: list[dict[object, object]] = [{}, {}, {}, {}]
    for monomial, coefficient in touch.target.offset.terms.items():
        free = frozenset[str]().union(*(atom.free for atom in monomial))
        of_lanes, of_loop = bool(free & lanes), loop is not None and loop in free
        outer = bool(free - lanes - {loop})
        at = 3 if of_lanes + of_loop + outer > 1 else 2 if of_lanes else 1 if of_loop else 0
        parts[at][monomial] = coefficient
    fixed, moving, of_tile, mixed = (Poly(part) for part in parts)  # pyright: ignore[reportArgumentType]
    return Address(fixed, moving, of_tile, mixed)


def lane_keys(touch: Touch) -> frozenset[str]:
    """Return the keys of an access's lane indices."""
    return frozenset(lane_symbol(d, size).key for d, size in enumerate(touch.shape) if size > 1)


def lane_values(touch: Touch) -> dict[str, Numbers]:
    """Return an array of the tile's shape for each lane index."""
    grid = np.indices(touch.shape or (1,), dtype=np.int64)
    return {lane_symbol(d, size).key: grid[d] for d, size in enumerate(touch.shape) if size > 1}


def evaluate_rows(value: Poly, columns: Mapping[str, Numbers], count: int) -> Numbers:
    """Return the value of a polynomial for each row of the columns."""
    return np.broadcast_to(numeric(value, columns), (count,)).astype(np.int64)


def split_lanes(value: Poly, lanes: frozenset[str]) -> tuple[Poly, Poly]:
    """Return the terms without lane indices, and those with."""
    fixed = {m: c for m, c in value.terms.items() if not any(atom.free & lanes for atom in m)}
    return Poly(fixed), Poly({m: c for m, c in value.terms.items() if m not in fixed})


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
