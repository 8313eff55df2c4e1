"""Triton's layouts: which element of a tile each register of each thread holds, so what an instruction of a warp touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """Which element each register of each thread holds, as Triton's linear layouts say it: where each bit of the number of
    a register, a lane and a warp moves it, dimension by dimension. `order` names the fastest dimension first."""

    registers: tuple[tuple[int, ...], ...]
    lanes: tuple[tuple[int, ...], ...]
    warps: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]

    def sliced(self, dimension: int) -> Layout:
        """Without a dimension."""
        registers, lanes, warps = (
            tuple(basis[:dimension] + basis[dimension + 1 :] for basis in bases)
            for bases in (self.registers, self.lanes, self.warps)
        )
        order = tuple(dim - (dim > dimension) for dim in self.order if dim != dimension)
        return Layout(registers, lanes, warps, order)


def blocked(per_thread: Sequence[int], lanes: Sequence[int], warps: Sequence[int], order: Sequence[int]) -> Layout:
    """Triton's blocked layout: so many elements a thread, threads a warp and warps along each dimension."""
    step = [1] * len(order)
    found: list[tuple[tuple[int, ...], ...]] = []
    for counts in (per_thread, lanes, warps):
        bases: list[tuple[int, ...]] = []
        for dim in order:
            end = step[dim] * counts[dim]
            while step[dim] < end:
                bases.append(_unit(dim, step[dim], len(order)))
                step[dim] *= 2
        found.append(tuple(bases))
    return Layout(found[0], found[1], found[2], tuple(order))


def accumulator(warps: Sequence[int], columns: int) -> Layout:
    """What tensor cores accumulate, of 16 rows a warp (the PTX manual's m16n8 and wgmma fragments)."""
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
    found: list[int] = []
    while start < end:
        found.append(start)
        start *= 2
    return found


@lru_cache(maxsize=256)
def requests(layout: Layout, shape: tuple[int, ...], vector: int, once: bool) -> Indices:
    """[instructions, 32 * vector]: the elements of a tile, by their place in it, that each instruction of a warp touches.

    A tile larger than the layout takes more registers, one that is smaller is held by several threads; `once` leaves out the
    warps that hold nothing but copies.
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


def registers_held(layout: Layout, shape: tuple[int, ...]) -> int:
    """How many different elements a thread holds."""
    return requests(layout, shape, 1, once=True).shape[0] // len(
        _places([b for b in layout.warps if any(b) and _inside(b, shape)], shape)
    )


def _inside(basis: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return all(at < size for at, size in zip(basis, shape, strict=True))


def _places(bases: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> Indices:
    """Where each number, its bits moving it as `bases` say, is in a tile in row-major order. Bases never share a bit."""
    places = np.zeros(1, dtype=np.int64)
    for basis in bases:
        step = 0
        for at, size in zip(basis, shape, strict=True):
            step = step * size + at
        places = np.concatenate((places, places + step))
    return places
