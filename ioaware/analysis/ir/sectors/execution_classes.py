"""Group executions of an access that touch sectors alike.

Each group is counted once.

Grid and loops mostly move the start of a tile. Only its offset within a sector matters, and where masks clip. Executions that
agree in both form a class, and each class is evaluated once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ioaware.analysis.ir.accesses.access_log import Condition, Scope, Touch
from ioaware.analysis.ir.accesses.values import lane_symbol
from ioaware.analysis.ir.algebra.poly import Poly, Test, Unknown
from ioaware.analysis.ir.loops.access_totals import Programs, unknowns
from ioaware.analysis.ir.sectors.lanes import numeric
from ioaware.machine.model import SECTOR_BYTES

MAX_EXECUTIONS = 1 << 25
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ExecutionClass:
    """Equal executions: `addresses` in bytes and `mask`, of one of `times`.

    Both are of the tile's shape.
    """

    addresses: Numbers
    mask: NDArray[np.bool_]
    times: int


def execution_classes(touch: Touch, programs: Programs, unit_bytes: int = SECTOR_BYTES) -> Iterator[ExecutionClass]:
    """Yield the execution classes of an access without free symbols.

    Executions of a class begin at the same place of a unit: a sector, or a line.

    Raises `ValueError` where they depend on data or there are too many executions.
    """
    where = f"{touch.operation} at {touch.frames[0]}" if touch.frames else touch.operation
    data = next(iter(_data(touch)), None)
    if data is not None:
        raise ValueError(f"{where} depends on {data.name}: {data.why}")
    try:
        yield from _classes(touch, programs, unit_bytes)
    except KeyError as error:  # the count of a loop that data end
        raise ValueError(f"{where} depends on {str(error.args[0]).partition('[')[0]}") from error


def _data(touch: Touch) -> Iterator[Unknown]:
    """Yield the unknowns in an access's address, mask, loops and conditions."""
    yield from unknowns(touch.target.offset)
    yield from unknowns(touch.mask)
    for scope in touch.scopes:
        for value in (scope.truth,) if isinstance(scope, Condition) else (scope.low, scope.high):
            yield from unknowns(value)


def _classes(touch: Touch, programs: Programs, unit_bytes: int) -> Iterator[ExecutionClass]:
    outside = executions_of(touch.scopes, programs)
    count = next(iter(outside.values())).size
    shape = touch.shape or (1,)
    grid = np.indices(shape, dtype=np.int64)
    lanes = {lane_symbol(d, size).key: grid[d] for d, size in enumerate(touch.shape) if size > 1}
    fixed, moving = _split(touch.target.offset, lanes)
    columns = [_all(numeric(fixed, outside), count) % unit_bytes]
    columns += [outside[key] for key in sorted(moving.free - lanes.keys())]
    for atom in {atom for monomial in touch.mask.terms for atom in monomial}:
        columns += _of_test(atom, outside, lanes, count) if isinstance(atom, Test) else _named(atom.free, outside, lanes)
    _, first, times = np.unique(np.stack(columns), axis=1, return_index=True, return_counts=True)
    for at, repeated in zip(first, times, strict=True):
        values = {**{key: column[at] for key, column in outside.items()}, **lanes}
        yield ExecutionClass(
            np.broadcast_to(numeric(touch.target.offset, values), shape).astype(np.int64),
            np.broadcast_to(numeric(touch.mask, values) != 0, shape),
            int(repeated),
        )


def executions_of(scopes: Sequence[Scope], programs: Programs) -> Mapping[str, Numbers]:
    """Return the index of each grid axis and loop for every execution.

    Raises `ValueError` for too many.
    """
    sizes = [_number(size) for size in programs.sizes]
    if prod(sizes) > MAX_EXECUTIONS:
        raise ValueError(f"{prod(sizes)} programs are too many to enumerate")
    axes = np.indices(tuple(sizes), dtype=np.int64).reshape(3, -1)
    found = {index.key: axis for index, axis in zip(programs.indices, axes, strict=True)}
    for scope in scopes:
        count = next(iter(found.values())).size
        if isinstance(scope, Condition):
            met = _all(numeric(scope.truth, found), count) != 0
            found = {key: column[met] for key, column in found.items()}
            continue
        low, high = (_all(numeric(bound, found), count) for bound in (scope.low, scope.high))
        times = np.maximum(high - low, 0)
        total = int(times.sum())
        if total > MAX_EXECUTIONS:
            raise ValueError(f"{total} executions are too many to enumerate")
        found = {key: np.repeat(column, times) for key, column in found.items()}
        started = np.repeat(np.cumsum(times) - times, times)
        found[scope.index.key] = np.repeat(low, times) + np.arange(total) - started
    return found


def _number(size: Poly) -> int:
    if size.constant is None:
        raise ValueError(f"the grid has {size.key} programs along an axis")
    return int(size.constant)


def _all(values: NDArray[np.generic], count: int) -> Numbers:
    return np.broadcast_to(values, (count,)).astype(np.int64)


def _split(value: Poly, lanes: Mapping[str, object]) -> tuple[Poly, Poly]:
    """Split into the terms without lanes and those with lanes."""
    fixed = {m: c for m, c in value.terms.items() if not any(atom.free & lanes.keys() for atom in m)}
    return Poly(fixed), Poly({m: c for m, c in value.terms.items() if m not in fixed})


def _of_test(test: Test, outside: Mapping[str, Numbers], lanes: Mapping[str, Numbers], count: int) -> list[Numbers]:
    """Return the lane threshold of a test, clipped where all lanes or none satisfy it."""
    fixed, moving = _split(test.value, lanes)
    if moving.free - lanes.keys():
        return _named(test.free, outside, lanes)
    of_lanes = numeric(moving, lanes)
    low, high = int(of_lanes.min()), int(of_lanes.max())
    return [np.clip(_all(numeric(fixed, outside), count), -high - 1, -low + 1)]


def _named(free: frozenset[str], outside: Mapping[str, Numbers], lanes: Mapping[str, object]) -> list[Numbers]:
    return [outside[key] for key in sorted(free - lanes.keys())]
