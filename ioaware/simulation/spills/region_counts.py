"""Find how often a program runs the loops and branches of its machine code.

A loop runs as often as the accesses inside it. Accesses and instructions are matched by the line of the source.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ioaware.analysis.ir.accesses.access_log import Loop, Scope, Touch
from ioaware.machine.occupancy import LANES
from ioaware.simulation.addresses.affine import evaluate_rows
from ioaware.simulation.addresses.row_keys import Numbers, first_of_groups, packed, sorted_rows
from ioaware.simulation.spills.machine_trace import MachineTrace
from ioaware.simulation.timeline import Executions

MAX_ROWS = 1 << 20
"""Executions whose conditions are evaluated; of more, all are taken as met."""


@dataclass(frozen=True, slots=True)
class PlaceCounts:
    """Executions of the accesses of a source line by a program, on average.

    `inside` and `around` have one number for each innermost loop of the IR with such accesses, in order: the iterations of
    that loop, and those of the loop around it. `bytes` are those of one execution. `nest` has the iterations of each loop of
    the deepest nest, the outermost first.
    """

    inside: tuple[float, ...]
    around: tuple[float, ...]
    bytes: int
    nest: tuple[float, ...] = ()


def counts_by_place(touches: Sequence[Touch], executions: Sequence[Executions], programs: int) -> Mapping[str, PlaceCounts]:
    """Return the executions of the accesses of each source line."""
    inside, around = [0.0] * len(touches), [0.0] * len(touches)
    nests: list[tuple[float, ...]] = [() for _ in touches]
    for one in executions:
        nests[one.touch] = max(nests[one.touch], _nest(one, touches[one.touch], programs), key=len)
        inside[one.touch] += _times(one) / max(1, programs)
        around[one.touch] += one.program.size / max(1, programs)
    numbers: dict[str, dict[tuple[Scope, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, touch in enumerate(touches):
        if touch.frames:
            loops = tuple(scope for scope in touch.scopes if isinstance(scope, Loop))
            numbers[touch.frames[0].rpartition("/")[2]][loops].append(number)
    found: dict[str, PlaceCounts] = {}
    for place, groups in numbers.items():
        chosen = [of for loops, of in groups.items() if loops and not _around_another(loops, groups)] or list(groups.values())
        size = max(sum(prod(touches[one].shape) * touches[one].element_bytes for one in of) for of in groups.values())
        most = [tuple(max(times[one] for one in of) for of in chosen) for times in (inside, around)]
        deepest = max((nests[one] for of in groups.values() for one in of), key=len)
        found[place] = PlaceCounts(most[0], most[1], size, deepest)
    return found


def _nest(one: Executions, touch: Touch, programs: int) -> tuple[float, ...]:
    """Return how often a program runs each loop around an access, the outermost first."""
    outer = [scope.index.key for scope in touch.scopes if isinstance(scope, Loop) and scope.index.key in one.columns]
    columns = [one.program, *(one.columns[key] for key in outer)]
    each = [_distinct(columns[:depth]) for depth in range(2, len(columns) + 1)]
    return tuple(count / max(1, programs) for count in (*each, *([_times(one)] if one.loop else [])))


def _distinct(columns: Sequence[Numbers]) -> int:
    """Return how many rows of these columns differ."""
    keys = packed(columns)
    return int(np.count_nonzero(first_of_groups(keys, sorted_rows(keys)))) if keys else 1


def _around_another(loops: tuple[Scope, ...], others: Iterable[tuple[Scope, ...]]) -> bool:
    return any(len(loops) < len(other) and other[: len(loops)] == loops for other in others)


def _times(one: Executions) -> int:
    """Return how often all programs execute an access."""
    if one.low is None or one.high is None or one.loop is None:
        return one.program.size
    each = np.maximum(one.high - one.low, 0)
    total = int(each.sum())
    if not one.conditions or total > MAX_ROWS:
        return total
    row = np.repeat(np.arange(each.size), each)
    columns = {key: column[row] for key, column in one.columns.items()}
    columns[one.loop.index.key] = one.low[row] + np.arange(total) - (np.cumsum(each) - each)[row]
    met = [evaluate_rows(condition, columns, total) != 0 for condition in one.conditions]
    return int(np.count_nonzero(np.all(met, axis=0)))


def region_counts(
    trace: MachineTrace, places: Mapping[str, PlaceCounts], warps: int, *, most: bool = False
) -> tuple[float, ...]:
    """Return how often a program runs each region.

    A loop that has so many instructions of a line as several executions need is unrolled as often. A loop without accesses
    runs as often as what is around it, and skipped code at most as often. Nothing says how often skipped code without accesses
    runs: never, or with `most` as often as what is around it.
    """
    loops, skipped = ([Counter[str]() for _ in trace.regions] for _ in range(2))
    deeper: list[set[str]] = [set() for _ in trace.regions]
    for one in trace.instructions:
        if one.kind != "global" or one.region is None:
            continue
        if not trace.regions[one.region].loop:
            skipped[one.region][one.place] += one.bytes * LANES * warps
        around = loops_around(trace, one.region)
        for at, loop in enumerate(around):
            if at:
                deeper[loop].add(one.place)
            else:
                loops[loop][one.place] += one.bytes * LANES * warps
    accesses = {around for one in trace.instructions if one.kind == "global" for around in regions_around(trace, one.region)}
    order = {place: [at for at, found in enumerate(loops) if place in found and place not in deeper[at]] for place in places}
    counts: list[float] = []
    for number, region in enumerate(trace.regions):
        often = 1.0 if region.parent is None else counts[region.parent]
        if region.loop:
            known = [
                _iterations(places[place], number, order[place], place in deeper[number], moved)
                for place, moved in loops[number].items()
                if place in places
            ]
            often = max(known, default=_around(trace, number, places, deeper[number]) or often)
        elif known := [max(places[place].inside) for place in skipped[number] if place in places]:
            often = min(often, *known)
        elif number not in accesses and not most:
            often = 0.0
        counts.append(often)
    return tuple(counts)


def _around(trace: MachineTrace, loop: int, places: Mapping[str, PlaceCounts], deeper: Collection[str]) -> float:
    """Return how often a loop runs that has accesses in inner loops alone.

    It is 0 where its nest is none of the IR. Compilers leave out loops of one iteration.
    """
    for one in trace.instructions:
        chain = loops_around(trace, one.region)[::-1] if one.kind == "global" and one.place in deeper else []
        if loop in chain and one.place in places:
            nest = places[one.place].nest
            several = tuple(many for many, before in zip(nest, (1.0, *nest), strict=False) if many != before)
            for found in (nest, several):
                if len(found) == len(chain):
                    return found[chain.index(loop)]
    return 0.0


def loops_around(trace: MachineTrace, region: int | None) -> list[int]:
    """Return the loops around an instruction of a region, the innermost first."""
    return [one for one in regions_around(trace, region) if trace.regions[one].loop]


def regions_around(trace: MachineTrace, region: int | None) -> list[int]:
    """Return the regions around an instruction of a region, the innermost first."""
    found: list[int] = []
    while region is not None:
        found.append(region)
        region = trace.regions[region].parent
    return found


def _iterations(place: PlaceCounts, loop: int, order: Sequence[int], has_deeper: bool, moved: int) -> float:
    """Return how often a loop with these accesses runs.

    A loop that also has them in an inner one holds the first loads of a pipelined loop. Loops of machine code and of the IR are
    matched in order where there are as many.
    """
    if has_deeper:
        return max(place.around)
    copies = max(1, round(moved / place.bytes)) if place.bytes else 1
    if len(order) == len(place.inside):
        return place.inside[order.index(loop)] / copies
    return max(place.inside) / copies
