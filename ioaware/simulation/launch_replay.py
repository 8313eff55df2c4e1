"""Replay one launch.

Its programs are placed on the GPU, and their accesses become events for the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ioaware.analysis.ir.accesses.access_log import Condition, Scope, Touch
from ioaware.analysis.ir.accesses.values import lane_symbol
from ioaware.analysis.ir.algebra.predicates import resolve_tests
from ioaware.analysis.ir.loops.access_totals import Programs, unknowns, upper_bound
from ioaware.simulation.addresses.address_blocks import SPARE_LINES, Blocks, Rectangle, choose_blocks
from ioaware.simulation.addresses.executed_streams import ExecutedLaunch
from ioaware.simulation.addresses.known_contents import KnownContents
from ioaware.simulation.addresses.row_keys import count_distinct
from ioaware.simulation.addresses.taken_lines import Taken
from ioaware.simulation.l2.events import ATOMIC, READ, WRITE, Events
from ioaware.simulation.merge import AccessTouches, count_events, merge_events
from ioaware.simulation.schedule import AgedSm, Schedule, schedule, schedule_by_age
from ioaware.simulation.spills.launch_spills import LaunchSpills
from ioaware.simulation.spills.local_memory import LocalMemory
from ioaware.simulation.spills.local_streams import LOCAL_MEMORY, local_streams
from ioaware.simulation.stream_lines import line_touches
from ioaware.simulation.streams import Numbers, ReferenceStream, least_moved, reference_streams
from ioaware.simulation.timeline import Executions, Timeline, Times
from ioaware.simulation.waves.placement import placed_by_clocks, with_sides

KINDS = {"read": READ, "write": WRITE, "atomic": ATOMIC}
MIN_LINE_BYTES, MAX_LINE_BYTES, TARGET_LINES = 1 << 12, 1 << 18, 2048
"""Smallest and largest line of the model in bytes.

The third number is about how many lines all tensors together have.
"""
MAX_IDLE_SHARE = 1 / 8
"""Share of the cache that the idle parts of lines in use at one time may fill.

A line is replaced as a whole, so that coarse lines of many separate streams would displace each other.
"""
MAX_REFINED_EVENTS = 4_000_000
"""Lines become smaller until they are accessed so often.

At most twice as often. Of so many a sample is replayed.
"""
MAX_PROGRAMS = 1 << 23
NOTHING_KNOWN = KnownContents()
MAX_AGED = 1 << 15
"""Most programs whose age on their SM is followed, about a second of a core."""
TIME_OF_STORES = 0.05
"""Time of a stored byte over that of a byte read, where memory takes longest.

No program waits for its stores. Of programs that read rows twice, the second time beside stores, the second pass takes less
time than the first.
"""


@dataclass(frozen=True, slots=True)
class DataDependentAccess:
    """Access, by its number in the kernel, whose address or mask depends on data.

    `run_bytes` lie side by side, wherever data put them. `whole_runs`: no mask cuts them.
    """

    number: int
    tensor: str
    kind: str
    why: str
    run_bytes: int
    whole_runs: bool = False


@dataclass(frozen=True)
class Replay:
    """Accesses of one launch in time, before blocks are chosen.

    `accesses` are those with known addresses, `numbers` their numbers in the kernel, and `tensors` their arguments' names.
    """

    name: str
    accesses: tuple[Touch, ...]
    numbers: tuple[int, ...]
    executions: tuple[Executions, ...]
    tensors: tuple[str, ...]
    kinds: tuple[int, ...]
    streams: tuple[tuple[ReferenceStream, ...], ...]
    programs: Schedule
    durations: Times
    data_dependent: tuple[DataDependentAccess, ...] = ()
    local: LocalMemory | None = None
    """Spilled registers of a program. Their streams follow those of the accesses."""
    executed: ExecutedLaunch | None = None
    """The launch on the data of the target, where these decide addresses.

    It has no `executions` then.
    """
    apart: bool = False
    """Whether memory takes longest.

    Programs that run at one time are at different places of their work then.
    """


def replay(
    name: str,
    touches: Sequence[Touch],
    programs: Programs,
    slots: int,
    *,
    known: frozenset[str],
    concurrent: bool = False,
    aged: AgedSm | None = None,
    memory_bound: bool = False,
    spills: LaunchSpills | None = None,
    contents: KnownContents = NOTHING_KNOWN,
    executed: Callable[[], ExecutedLaunch | None] = lambda: None,
    skew: float = 0.0,
    own_clocks: bool = False,
    whole_sectors: bool = True,
    sms: int = 1,
) -> Replay:
    """Place the programs of a launch on `slots` of `sms` SMs.

    Return the addresses and times of its accesses.

    `known` are the arguments whose memory is known. `concurrent`: the kernel is warp-specialised. `aged`: each SM serves
    the oldest of its programs first. `memory_bound`: it has no matmul. `spills` finds its spilled registers. `contents` are
    the numbers that it loads, and `executed` executes it on them where they decide addresses. `skew` delays the first programs
    evenly, the last by that share of the longest program's duration. `own_clocks`: each GPC has a clock of its own. Short
    pieces are those of `whole_sectors`, as the caches move them.
    Raises `ValueError` for a launch that is too large.
    """
    sizes = [int(size.constant or 0) for size in programs.sizes]
    if int(np.prod(sizes)) > MAX_PROGRAMS:
        raise ValueError(f"{int(np.prod(sizes))} programs are too many to enumerate")
    depth, height, width = np.indices(tuple(reversed(sizes)), dtype=np.int64).reshape(3, -1)
    axes = {index.key: axis for index, axis in zip(programs.indices, (width, height, depth), strict=True)}
    touches, indices = contents.resolve(touches, axes)
    placed: list[Touch] = []
    numbers: list[int] = []
    data_dependent: list[DataDependentAccess] = []
    for number, touch in enumerate(touches):
        simple = _resolve_data_conditions(number, touch)
        if isinstance(simple, Touch) and touch.target.argument not in known:
            simple = _data_dependent(number, touch, "its memory is no argument of the kernel")
        if isinstance(simple, DataDependentAccess):
            data_dependent.append(simple)
        else:
            placed.append(simple)
            numbers.append(number)
    timeline = Timeline(placed, indices, concurrent=concurrent, time_of_stores=TIME_OF_STORES if memory_bound else 1.0)
    executions, durations = timeline.executions, timeline.durations
    local = spills.of(placed, executions, durations.size, indices) if spills else None
    run = executed() if data_dependent and not concurrent else None
    if run is not None:
        placed, numbers = [touches[number] for number in run.numbers], list(run.numbers)
        data_dependent, executions, durations = [], [], run.durations
    delays = np.linspace(0, skew * float(durations.max(initial=0.0)), slots) if skew else None
    by_age = aged is not None and delays is None and slots < durations.size
    if aged is not None and by_age and (durations.size <= MAX_AGED or durations.min() == durations.max()):
        order = schedule_by_age(durations, slots, aged)
    elif own_clocks:
        order = placed_by_clocks(durations, slots, sms)
    else:
        order = schedule(durations, slots, delays)
    order = with_sides(order, durations, slots, sms)
    found: list[list[ReferenceStream]] = [[] for _ in placed]
    for one in executions:
        touch = placed[one.touch]
        found[one.touch] += reference_streams(touch, one, order, least_bytes=least_moved(touch) if whole_sectors else 1)
    if run is not None:
        for number, (touch, each) in enumerate(zip(placed, found, strict=True)):
            each += run.streams(number, order, least_bytes=least_moved(touch))
    moved = list(local_streams(local, order, durations)) if local else []
    return Replay(
        name,
        tuple(placed),
        tuple(numbers),
        tuple(executions),
        (*(touch.target.argument for touch in placed), *(LOCAL_MEMORY for _ in moved)),
        (*(KINDS[touch.kind] for touch in placed), *(kind for kind, _ in moved)),
        (*map(tuple, found), *((stream,) for _, stream in moved)),
        order,
        durations,
        tuple(data_dependent),
        local,
        run,
        memory_bound and by_age,
    )


def _resolve_data_conditions(number: int, touch: Touch) -> Touch | DataDependentAccess:
    """Return the access with data-dependent masks and conditions taken as true."""
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
        return _data_dependent(number, touch, str((data or left)[0].why))
    return replace(touch, mask=mask, scopes=tuple(scopes))


def _data_dependent(number: int, touch: Touch, why: str) -> DataDependentAccess:
    """Return the access with the bytes that lie side by side.

    They are along a dimension on which the unknown addresses do not depend.
    """
    scattered = {key for one in unknowns(touch.target.offset) for key in one.free}
    run, whole = 1, False
    for dimension, size in enumerate(touch.shape):
        along = lane_symbol(dimension, size)
        if along.key not in scattered and touch.target.offset.terms.get((along,)) == touch.element_bytes:
            others = (one for one in touch.target.offset.terms if one != (along,))
            run, whole = size, along.key not in touch.mask.free.union(*(atom.free for one in others for atom in one))
    return DataDependentAccess(number, touch.target.argument, touch.kind, why, run * touch.element_bytes, whole)


@dataclass
class Storage:
    """One allocation: its size in bytes and the shapes of the accesses to it."""

    size_bytes: int
    parts: list[Rectangle] = field(default_factory=list[Rectangle])
    alignment: int = 0
    together: list[Numbers] = field(default_factory=list[Numbers])
    """Addresses that each stream begins with, at one time."""

    def idle_bytes(self, line_bytes: int) -> int:
        """Return the bytes of lines in use at one time that are not used.

        They are those beyond what the smallest lines would have.
        """
        used = [
            size * max((count_distinct(one // size) for one in self.together), default=0)
            for size in (line_bytes, MIN_LINE_BYTES)
        ]
        return max(0, used[0] - used[1])


def choose_layouts(
    replays: Sequence[Replay],
    storage_of: Sequence[Mapping[str, int]],
    sizes: Sequence[int],
    capacity_bytes: float,
    most_bytes: int = MAX_LINE_BYTES,
) -> list[Blocks]:
    """Choose a block layout of each storage that fits all accesses to it.

    Lines have `most_bytes` at most, but for tiles that are larger.
    """
    stored = [Storage(size) for size in sizes]
    for one, names in zip(replays, storage_of, strict=True):
        for tensor, found in zip(one.tensors, one.streams, strict=True):
            at = stored[names[tensor]]
            for start in found:
                at.parts += start.parts
                at.alignment = int(np.gcd.reduce([at.alignment, start.stride, *(p.offset for p in start.parts)]))
                at.alignment = int(np.gcd.reduce(start.base, initial=at.alignment))
                if start.base.size:
                    at.together.append(start.base[start.time == start.time.min()])
    total = sum(sizes)
    line = MIN_LINE_BYTES
    while line < MAX_LINE_BYTES and line * TARGET_LINES < total:
        line *= 2
    accessed = sum(_accessed_bytes(stream) for one in replays for found in one.streams for stream in found)
    smallest, apart = max(MIN_LINE_BYTES, accessed // MAX_REFINED_EVENTS), all(one.apart for one in replays)
    while line > smallest and (apart or sum(one.idle_bytes(line) for one in stored) > MAX_IDLE_SHARE * capacity_bytes):
        line //= 2
    line = min(line, most_bytes)
    layouts: list[Blocks] = []
    first = 0
    for one in stored:
        blocks = choose_blocks(one.parts, one.alignment, min(line, max(256, one.size_bytes // 256)))
        layouts.append(replace(blocks, first_line=first))
        first += -(-one.size_bytes // blocks.line_bytes) + SPARE_LINES
    return layouts


def _accessed_bytes(stream: ReferenceStream) -> int:
    tiles = stream.base.size if stream.count is None else int(stream.count.sum())
    return tiles * sum(part.bytes for part in stream.parts)


@dataclass(frozen=True, slots=True)
class LaunchTouches:
    """Accesses of a launch to lines.

    Those of one instruction to one line within `quantum` time units are merged.
    """

    parts: tuple[AccessTouches, ...]
    quantum: float
    wave: Numbers

    def events(self) -> Events:
        """Return the accesses as events."""
        return merge_events(self.parts, self.quantum, self.wave)

    def count(self) -> int:
        """Return how many events there are."""
        return count_events(self.parts, self.quantum)


def launch_touches(
    one: Replay, names: Mapping[str, int], layouts: Sequence[Blocks], taken: Callable[[int], Taken | None] = lambda _: None
) -> LaunchTouches:
    """Return the accesses of a launch to lines.

    `names` maps a tensor to the number of its storage; `taken` gives the lines of a storage that are replayed.
    """
    parts: list[AccessTouches] = []
    quantum = 0.0
    for access, (tensor, kind, found) in enumerate(zip(one.tensors, one.kinds, one.streams, strict=True)):
        number = names[tensor]
        for start in found:
            quantum = max(quantum, _line_duration(start, layouts[number]))
            found_here = line_touches(start, layouts[number], taken(number))
            parts += [AccessTouches(touched, access, number, kind) for touched in found_here]
    return LaunchTouches(tuple(parts), quantum, one.programs.wave)


def _line_duration(start: ReferenceStream, blocks: Blocks) -> float:
    """Return the time that a run of tiles spends in one line.

    It is the whole run's if that is shorter.
    """
    if start.count is None or not start.count.size:
        return 0.0
    tiles = min(blocks.line_bytes / abs(start.stride), float(np.median(start.count)))
    return tiles * start.step
