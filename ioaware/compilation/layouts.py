"""Compute Triton's linear layouts.

A layout gives the element of a tile that each register of each thread holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """Linear layout: the basis vector of each index bit, by dimension.

    The bits are those of the register, lane and warp index.

    `order` lists the fastest dimension first.
    """

    registers: tuple[tuple[int, ...], ...]
    lanes: tuple[tuple[int, ...], ...]
    warps: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]

    def sliced(self, dimension: int) -> Layout:
        """Return the slice layout without a dimension."""
        registers, lanes, warps = (
            tuple(basis[:dimension] + basis[dimension + 1 :] for basis in bases)
            for bases in (self.registers, self.lanes, self.warps)
        )
        order = tuple(dim - (dim > dimension) for dim in self.order if dim != dimension)
        return Layout(registers, lanes, warps, order)


def blocked(per_thread: Sequence[int], lanes: Sequence[int], warps: Sequence[int], order: Sequence[int]) -> Layout:
    """Return Triton's blocked layout.

    It has elements per thread, lanes and warps along each dimension.
    """
    step = [1] * len(order)
    levels: list[tuple[tuple[int, ...], ...]] = []
    for counts in (per_thread, lanes, warps):
        bases: list[tuple[int, ...]] = []
        for dim in order:
            end = step[dim] * counts[dim]
            while step[dim] < end:
                bases.append(_unit(dim, step[dim], len(order)))
                step[dim] *= 2
        levels.append(tuple(bases))
    return Layout(levels[0], levels[1], levels[2], tuple(order))


def accumulator(warps: Sequence[int], columns: int) -> Layout:
    """Return the accumulator layout of tensor cores, 16 rows per warp.

    It is from the PTX ISA (m16n8 and wgmma fragments).
    """
    registers = [(0, 1), (8, 0), *((0, column) for column in _powers(8, columns))]
    lanes = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
    along = [
        *((row, 0) for row in _powers(16, 16 * warps[0])),
        *((0, column) for column in _powers(columns, columns * warps[1])),
    ]
    return Layout(tuple(registers), lanes, tuple(along), (1, 0))


def _unit(dim: int, step: int, rank: int) -> tuple[int, ...]:
    return tuple(step if d == dim else 0 for d in range(rank))


def _powers(start: int, end: int) -> list[int]:
    powers: list[int] = []
    while start < end:
        powers.append(start)
        start *= 2
    return powers


@lru_cache(maxsize=256)
def requests(layout: Layout, shape: tuple[int, ...], vector: int, once: bool) -> Indices:
    """Return the tile elements that each warp instruction accesses.

    They are flat indices [instructions, 32 * vector].

    A tile larger than the layout takes more registers; a smaller one is replicated over threads. `once` excludes warps that
    hold only replicas.
    """
    registers = [basis for basis in layout.registers if any(basis) and _inside(basis, shape)]
    covered = [1] * len(shape)
    for basis in (*layout.registers, *layout.lanes, *layout.warps):
        covered = [max(size, 2 * at) for size, at in zip(covered, basis, strict=True)]
    for dim in layout.order:
        registers += [_unit(dim, step, len(shape)) for step in _powers(covered[dim], shape[dim])]
    lanes = [basis if _inside(basis, shape) else (0,) * len(shape) for basis in layout.lanes]
    warps = [basis for basis in layout.warps if _inside(basis, shape) or not once]
    if once:
        warps = [basis for basis in warps if any(basis)]
    warps = [basis if _inside(basis, shape) else (0,) * len(shape) for basis in warps]
    register, lane, warp = (_places(bases, shape) for bases in (registers, lanes, warps))
    place = warp[:, None, None] + register[None, :, None] + lane[None, None, :]
    grouped = place.reshape(len(warp), -1, vector, len(lane)).swapaxes(2, 3)
    return np.ascontiguousarray(grouped.reshape(-1, len(lane) * vector))


def distinct_in_rows(rows: Indices) -> Indices:
    """Return the distinct non-negative values of each row, one row after the other."""
    ordered = np.sort(rows, axis=1)
    new = ordered >= 0
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return ordered[new]


def owners(layout: Layout, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which lanes of a warp hold no replica of another lane's elements."""
    lanes: Indices = np.arange(1 << len(layout.lanes), dtype=np.int64)
    replicas = sum(1 << bit for bit, basis in enumerate(layout.lanes) if not any(basis) or not _inside(basis, shape))
    return lanes & replicas == 0


def registers_per_thread(layout: Layout, shape: tuple[int, ...]) -> int:
    """Return the number of distinct elements per thread."""
    return requests(layout, shape, 1, once=True).shape[0] // len(
        _places([b for b in layout.warps if any(b) and _inside(b, shape)], shape)
    )


def _inside(basis: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return all(at < size for at, size in zip(basis, shape, strict=True))


def _places(bases: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> Indices:
    """Return the row-major tile index of each register, lane or warp number.

    Bases never share a bit.
    """
    places = np.zeros(1, dtype=np.int64)
    for basis in bases:
        step = 0
        for at, size in zip(basis, shape, strict=True):
            step = step * size + at
        places = np.concatenate((places, places + step))
    return places
