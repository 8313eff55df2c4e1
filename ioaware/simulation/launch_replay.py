"""One launch replayed: its programs placed on the GPU, their accesses turned into events for the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ioaware.analysis.ir.accesses.access_log import Condition, Scope, Touch
from ioaware.analysis.ir.algebra.predicates import resolve_tests
from ioaware.analysis.ir.loops.access_totals import Programs, unknowns, upper_bound
from ioaware.simulation.address_blocks import Blocks, Rectangle, cut
from ioaware.simulation.cache import ATOMIC, READ, WRITE, Event
from ioaware.simulation.merge import Tagged, events
from ioaware.simulation.schedule import Schedule, schedule
from ioaware.simulation.streams import Starts, raw, starts
from ioaware.simulation.timeline import Timeline, Times

KINDS = {"read": READ, "write": WRITE, "atomic": ATOMIC}
LEAST_UNIT, GREATEST_UNIT, UNITS = 1 << 12, 1 << 18, 2048
"""Bytes of a unit, and how many units all tensors together shall have about."""
MAX_PROGRAMS = 1 << 23


@dataclass(frozen=True, slots=True)
class Unplaced:
    """An access, by its number in the kernel, of which data decide where or whether it happens."""

    number: int
    tensor: str
    kind: str
    why: str


@dataclass(frozen=True)
class Replay:
    """The executions of one launch in time, before blocks are known. `tensors` are argument names, one for each access."""

    name: str
    tensors: tuple[str, ...]
    kinds: tuple[int, ...]
    starts: tuple[tuple[Starts, ...], ...]
    programs: Schedule
    durations: Times
    unplaced: tuple[Unplaced, ...] = ()


def replay(
    name: str,
    touches: Sequence[Touch],
    programs: Programs,
    slots: int,
    *,
    known: frozenset[str],
    concurrent: bool = False,
    skew: float = 0.0,
) -> Replay:
    """Place the programs of a launch on `slots` and find where each access starts, when.

    `known` are the arguments whose memory is known. `concurrent`: the kernel's warps do different things at once. `skew`
    holds back the first programs evenly, the last by that share of the longest program's time. Raises `ValueError` for a
    launch that is too large.
    """
    placed: list[Touch] = []
    unplaced: list[Unplaced] = []
    for number, touch in enumerate(touches):
        simple = _without_data(number, touch)
        if isinstance(simple, Touch) and touch.target.argument not in known:
            simple = Unplaced(number, touch.target.argument, touch.kind, "its memory is no argument of the kernel")
        if isinstance(simple, Unplaced):
            unplaced.append(simple)
        else:
            placed.append(simple)
    sizes = [int(size.constant or 0) for size in programs.sizes]
    if int(np.prod(sizes)) > MAX_PROGRAMS:
        raise ValueError(f"{int(np.prod(sizes))} programs are too many to go through")
    depth, height, width = np.indices(tuple(reversed(sizes)), dtype=np.int64).reshape(3, -1)
    indices = {index.key: axis for index, axis in zip(programs.indices, (width, height, depth), strict=True)}
    line = Timeline(placed, indices, concurrent=concurrent)
    delays = np.linspace(0, skew * float(line.durations.max(initial=0.0)), slots) if skew else None
    order = schedule(line.durations, slots, delays)
    found: list[list[Starts]] = [[] for _ in placed]
    for one in line.executions:
        found[one.touch] += starts(placed[one.touch], one, order)
    return Replay(
        name,
        tuple(touch.target.argument for touch in placed),
        tuple(KINDS[touch.kind] for touch in placed),
        tuple(map(tuple, found)),
        order,
        line.durations,
        tuple(unplaced),
    )


def _without_data(number: int, touch: Touch) -> Touch | Unplaced:
    """Return the touch with masks and conditions that data decide taken as met."""
    mask, data = upper_bound(resolve_tests(touch.mask))
    scopes: list[Scope] = []
    for scope in touch.scopes:
        if isinstance(scope, Condition):
            truth, found = upper_bound(resolve_tests(scope.truth))
            data += found
            scopes.append(Condition(truth))
        else:
            data += [*unknowns(scope.low), *unknowns(scope.high)]
            scopes.append(scope)
    data += unknowns(touch.target.offset)
    left = [*unknowns(mask), *(u for s in scopes if isinstance(s, Condition) for u in unknowns(s.truth))]
    if data or left:
        return Unplaced(number, touch.target.argument, touch.kind, str((data or left)[0].why))
    return replace(touch, mask=mask, scopes=tuple(scopes))


@dataclass
class Storage:
    """One piece of memory: how large it is and what accesses of it look like."""

    size_bytes: int
    parts: list[Rectangle] = field(default_factory=list[Rectangle])
    alignment: int = 0


def layout(replays: Sequence[Replay], storage_of: Sequence[Mapping[str, int]], sizes: Sequence[int]) -> list[Blocks]:
    """Cut each storage into blocks that fit all accesses of it."""
    stored = [Storage(size) for size in sizes]
    for one, names in zip(replays, storage_of, strict=True):
        for tensor, found in zip(one.tensors, one.starts, strict=True):
            at = stored[names[tensor]]
            for start in found:
                at.parts += start.parts
                at.alignment = int(np.gcd.reduce([at.alignment, start.stride, *(p.offset for p in start.parts)]))
                at.alignment = int(np.gcd.reduce(start.base, initial=at.alignment))
    total = sum(sizes)
    unit = LEAST_UNIT
    while unit < GREATEST_UNIT and unit * UNITS < total:
        unit *= 2
    cuts: list[Blocks] = []
    first = 0
    for one in stored:
        blocks = cut(one.parts, one.alignment, min(unit, max(256, one.size_bytes // 256)))
        cuts.append(replace(blocks, first_unit=first))
        first += -(-one.size_bytes // blocks.unit_bytes) + 64
    return cuts


def launch_events(one: Replay, names: Mapping[str, int], cuts: Sequence[Blocks]) -> list[Event]:
    """Return the events of a launch, the tensors by number of their storage."""
    parts: list[Tagged] = []
    quantum = 0.0
    for access, (tensor, kind, found) in enumerate(zip(one.tensors, one.kinds, one.starts, strict=True)):
        number = names[tensor]
        for start in found:
            quantum = max(quantum, _crossing(start, cuts[number]))
            parts += [Tagged(touched, access, number, kind) for touched in raw(start, cuts[number])]
    return list(events(parts, quantum, one.programs.wave))


def _crossing(start: Starts, blocks: Blocks) -> float:
    """Return the time that a run of tiles takes through one unit, or all of it if that is shorter."""
    if start.count is None or not start.count.size:
        return 0.0
    tiles = min(blocks.unit_bytes / abs(start.stride), float(np.median(start.count)))
    return tiles * start.step
