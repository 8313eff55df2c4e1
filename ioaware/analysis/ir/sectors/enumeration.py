"""Enumerate a launch without free symbols, execution by execution.

Why: sums over programs with varying loop bounds may have no closed form, and searching for one is slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ioaware.analysis.ir.accesses.access_log import Condition, Loop, Scope, Touch
from ioaware.analysis.ir.accesses.values import lane_symbol
from ioaware.analysis.ir.algebra.constructors import substitute
from ioaware.analysis.ir.algebra.poly import ZERO, Poly, Symbol
from ioaware.analysis.ir.loops.access_totals import Programs, active_lanes, unknowns
from ioaware.analysis.ir.sectors.execution_classes import execution_classes, executions_of
from ioaware.analysis.ir.sectors.lanes import numeric
from ioaware.machine.model import SECTOR_BYTES

MAX_PROGRAMS = 4096


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals over all programs.

    `sectors` is 0 for atomics, which have no sector count.
    """

    lanes: int
    executions: int
    sectors: int


def enumerable(scopes: Sequence[Scope], values: Sequence[Poly], programs: Programs) -> bool:
    """Return whether values depend on programs and loops alone.

    A loop's bounds must depend on one of them.
    """
    sizes = [size.constant for size in programs.sizes]
    if not all(isinstance(size, int) for size in sizes) or np.prod([int(size or 0) for size in sizes]) > MAX_PROGRAMS:
        return False
    everything = [*values, *_bounds(scopes)]
    inside = {index.key for index in programs.indices} | {s.index.key for s in scopes if isinstance(s, Loop)}
    moving = any(isinstance(s, Loop) and (s.low.free | s.high.free) for s in scopes)
    return moving and all(value.free <= inside and not unknowns(value) for value in everything)


def _bounds(scopes: Sequence[Scope]) -> Iterator[Poly]:
    for scope in scopes:
        yield from (scope.truth,) if isinstance(scope, Condition) else (scope.low, scope.high)


def totals(touch: Touch, programs: Programs) -> Totals | None:
    """Return lanes, executions and sectors of an access.

    None where it is not `enumerable`.
    """
    lanes = [lane_symbol(dimension, size) for dimension, size in enumerate(touch.shape)]
    fixed = [_without(value, lanes) for value in (touch.mask, touch.target.offset)]
    if not enumerable(touch.scopes, fixed, programs):
        return None
    try:
        each = executions_of(touch.scopes, programs)
        count = next(iter(each.values())).size
        active = np.broadcast_to(numeric(active_lanes(touch.mask, touch.shape), each), (count,))
        return Totals(int(active.sum()), count, _sectors(touch, programs) if touch.kind != "atomic" else 0)
    except (TypeError, ValueError):  # a sum inside, or too many
        return None


def _without(value: Poly, lanes: Sequence[Symbol]) -> Poly:
    return substitute(value, {lane.key: ZERO for lane in lanes})


def _sectors(touch: Touch, programs: Programs) -> int:
    """Return the distinct sectors of each execution, added up."""
    found = 0
    for same in execution_classes(touch, programs):
        first = same.addresses[same.mask]
        touched = np.concatenate((first // SECTOR_BYTES, (first + touch.element_bytes - 1) // SECTOR_BYTES))
        found += same.times * int(np.unique(touched).size)
    return found


def repetitions(scopes: Sequence[Scope], programs: Programs) -> int | None:
    """Return how often the body of these scopes runs in all programs.

    None where not `enumerable`.
    """
    if not enumerable(scopes, (), programs):
        return None
    try:
        return next(iter(executions_of(scopes, programs).values())).size
    except (TypeError, ValueError):
        return None
