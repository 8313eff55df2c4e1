"""Replay the loads and stores of some SMs through their L1s.

The first programs are assigned to the SMs in order; each later one runs on the SM that is free first. The SMs that are replayed
stand for the others. Stores are written through and leave their lines in the L1, as probes on an H200 show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.compilation.instructions.compiled_loads import Eviction
from ioaware.compilation.instructions.line_sharing import NOT_SHARED, STARTS, SharedLines
from ioaware.machine.model import SECTOR_BYTES
from ioaware.simulation.addresses.executed_streams import ExecutedLaunch
from ioaware.simulation.l1.l1_events import L1Access, L1Events, count_local_events, local_events, tile_events
from ioaware.simulation.l1.l1_sets import AFTER_WAIT, FIRST, LAST, NORMAL, STORED, WRITTEN_APART, add_served_sectors
from ioaware.simulation.l1.l1_shape import LINE_SECTORS, MAX_CHUNK_SECTORS
from ioaware.simulation.schedule import Schedule
from ioaware.simulation.streams import Numbers, ReferenceStream, Times, reference_streams, unrolled
from ioaware.simulation.timeline import Executions

if TYPE_CHECKING:
    from ioaware.simulation.spills.local_memory import LocalMemory  # it loads Triton

MAX_EVENTS = 100_000
"""Chunks accessed by the replayed SMs, about a second of a core."""
MAX_LOCAL_EVENTS = 4 * MAX_EVENTS
"""The same of local memory.

Where there are more, the lines of spilled registers are left out of this replay.
"""
WAITING_SHARE = 0.48
"""Time of a wait over that in which a program reads the bytes that are in flight.

With it, 12 launches of `h200-waits.json` in `ioaware/recorded/l1` lose as many lines during waits as were counted, on average.
"""
USES: Mapping[Eviction | None, int] = {None: STORED, "evict_normal": NORMAL, "evict_first": FIRST, "evict_last": LAST}


@dataclass(frozen=True, slots=True)
class L1Reads:
    """Sector bytes of a launch's loads through the L1, and those that it serves.

    `again_bytes` are those that instructions of one load request again, after a wait.
    """

    accessed_bytes: int
    served_bytes: int
    again_bytes: int = 0


@dataclass(frozen=True, slots=True)
class L1Replay:
    """Bytes as in `L1Reads`, by number of the access."""

    accessed_bytes: tuple[int, ...] = ()
    served_bytes: tuple[int, ...] = ()
    again_bytes: tuple[int, ...] = ()

    @property
    def reads(self) -> L1Reads:
        """Sums over all accesses."""
        return L1Reads(sum(self.accessed_bytes), sum(self.served_bytes), sum(self.again_bytes))


def replay_l1(
    touches: Sequence[Touch],
    executions: Sequence[Executions] | ExecutedLaunch,
    through: Sequence[Eviction | None],
    programs: Schedule,
    storage: Mapping[str, int],
    *,
    sms: int,
    capacity_bytes: int,
    shared: Sequence[SharedLines] = (),
    apart: Sequence[float] = (),
    threads: int = 0,
    local: LocalMemory | None = None,
    durations: Times | None = None,
) -> L1Replay | None:
    """Replay the accesses of a launch through its L1s.

    `through` says which are loads through the L1, by their evictions. `shared` has the lines of each access that several
    instructions touch; none do where it is empty. `apart` is the share of the sectors of each store whose parts are written
    apart. Programs have so many `threads`. `local` is what a program accesses in local memory, at shares of its duration.

    `storage` numbers the memory of the arguments. Where one SM has too many events, some of its waves are replayed, evenly
    spread. None where one wave has too many.
    """
    lines = shared or [NOT_SHARED] * len(touches)
    parts = _parts(touches, executions, through, lines, apart or [0.0] * len(touches), threads)
    if not any(through[one.touch] and one.chunks for one in parts):
        return L1Replay()
    sm_of = programs.slot % sms
    kept = _kept(sum(one.chunks for one in parts), programs, sm_of)
    if kept is None:
        return None
    found: list[tuple[_Part, ReferenceStream]] = []
    for one in parts:
        streams = one.streams(programs, kept)
        found += [(one, unrolled(each, each.count) if each.count is not None else each) for each in streams]
    tensor_of = {one.touch: storage[touches[one.touch].target.argument] for one, _ in found}
    sectors = _chunk_sectors(found, tensor_of)
    events: list[L1Events] = []
    for one, stream in found:
        tensor = tensor_of[one.touch]
        use, number = USES[through[one.touch]], one.touch
        if one.again:
            use, number = WRITTEN_APART if use == STORED else AFTER_WAIT, len(touches) + 1 + one.touch
        access = L1Access(number, tensor, sectors[tensor], use, one.again or _at_once(lines[one.touch]))
        events += [tile_events(stream, part, access, sm_of) for part in stream.parts]
    if local and durations is not None and count_local_events(local) * np.count_nonzero(kept) <= MAX_LOCAL_EVENTS:
        events.append(local_events(local, programs, durations, np.flatnonzero(kept), sm_of, len(touches)))
    share = sm_of.size / max(1, int(np.count_nonzero(kept)))
    accessed, served = _replay(events, capacity_bytes, 2 * len(touches) + 1)
    each = (accessed[: len(touches)], served[: len(touches)], served[len(touches) + 1 :])
    return L1Replay(*(tuple(round(one * share) * SECTOR_BYTES for one in sectors) for sectors in each))


def _at_once(lines: SharedLines) -> tuple[float, ...]:
    """Return the shares of lines that instructions share without a wait between them."""
    return tuple(max(0.0, one - lines.after_waits.share) for one in lines.by_start)


@dataclass(frozen=True, slots=True)
class _Part:
    """Accesses that take part.

    They have about so many `chunks`, and streams of the kept programs. Loads after a wait touch shares of the lines `again`, as
    in `SharedLines`; of stores these are the lines that are written apart.
    """

    touch: int
    chunks: int
    streams: Callable[[Schedule, NDArray[np.bool_]], Iterable[ReferenceStream]]
    again: tuple[float, ...] = ()


def _parts(
    touches: Sequence[Touch],
    executions: Sequence[Executions] | ExecutedLaunch,
    through: Sequence[Eviction | None],
    lines: Sequence[SharedLines],
    apart: Sequence[float],
    threads: int,
) -> list[_Part]:
    """Return the loads through the L1, and the stores.

    What loads touch again after waits, and what stores write apart, is left out where they were executed.
    """

    def symbolic(one: Executions, programs: Schedule, kept: NDArray[np.bool_]) -> list[ReferenceStream]:
        kept_rows = _of_programs(one, kept)
        return reference_streams(touches[one.touch], kept_rows, programs, least_bytes=SECTOR_BYTES, apart=True)

    def part(one: Executions, again: float = 0.0) -> _Part:
        shares = (again,) * len(STARTS) if again else ()
        return _Part(one.touch, _count(touches[one.touch], one), partial(symbolic, one), shares)

    takes_part = [loads is not None or touch.kind == "write" for touch, loads in zip(touches, through, strict=True)]
    if isinstance(executions, ExecutedLaunch):
        sizes = [int(np.sum(1 + one.size // (MAX_CHUNK_SECTORS * SECTOR_BYTES))) for one in executions.runs]
        every = [_Part(at, size, partial(executions.streams, at)) for at, size in enumerate(sizes)]
    else:
        every = [part(one) for one in executions]
        for one in executions:
            after, stored = lines[one.touch].after_waits, apart[one.touch]
            if stored:
                every.append(part(one, min(1.0, stored)))
            if through[one.touch] and after.share:
                delay = WAITING_SHARE * after.in_flight_bytes * threads
                every.append(part(replace(one, time=one.time + delay), after.share))
    return [one for one in every if takes_part[one.touch]]


def _count(touch: Touch, one: Executions) -> int:
    """Return about how many chunks the executions access."""
    times = one.program.size if one.low is None or one.high is None else int(np.maximum(one.high - one.low, 0).sum())
    return times * max(1, int(np.prod(touch.shape)) * touch.element_bytes // (MAX_CHUNK_SECTORS * SECTOR_BYTES))


def _kept(chunks: int, programs: Schedule, sm_of: Numbers) -> NDArray[np.bool_] | None:
    """Return the programs that are replayed, of a launch with so many chunks.

    None where one wave of an SM has too many.
    """
    used = np.unique(sm_of)
    kept = np.isin(sm_of, _spread(used, max(1, int(used.size * MAX_EVENTS / chunks))))
    if chunks > MAX_EVENTS * used.size:
        waves = np.unique(programs.wave)
        some = int(waves.size * MAX_EVENTS * used.size / chunks)
        if not some:
            return None
        kept &= np.isin(programs.wave, _spread(waves, some))
    return kept


def _spread(used: Numbers, count: int) -> Numbers:
    """Return so many of the SMs or waves, evenly spread."""
    return used if count >= used.size else used[np.linspace(0, used.size - 1, count).astype(np.int64)]


def _of_programs(one: Executions, kept: NDArray[np.bool_]) -> Executions:
    rows = kept[one.program]
    return replace(
        one,
        program=one.program[rows],
        columns={key: column[rows] for key, column in one.columns.items()},
        time=one.time[rows],
        low=None if one.low is None else one.low[rows],
        high=None if one.high is None else one.high[rows],
    )


def _chunk_sectors(found: Sequence[tuple[_Part, ReferenceStream]], tensor_of: Mapping[int, int]) -> dict[int, int]:
    """Return the sectors of a chunk of each tensor.

    It is a power of two, no more than the shortest run has.
    """
    shortest: dict[int, int] = {}
    for one, stream in found:
        runs, tensor = min(part.run if part.run < part.pitch else part.bytes for part in stream.parts), tensor_of[one.touch]
        shortest[tensor] = min(shortest.get(tensor, MAX_CHUNK_SECTORS), max(1, runs // SECTOR_BYTES))
    return {tensor: max(LINE_SECTORS, 1 << (sectors.bit_length() - 1)) for tensor, sectors in shortest.items()}


def _replay(found: Sequence[L1Events], capacity_bytes: int, count: int) -> tuple[list[int], list[int]]:
    """Return accessed and served sectors of the replayed SMs by access.

    `count` is how many accesses there are.
    """
    columns = [
        np.concatenate([getattr(one, name) for one in found])
        for name in ("sm", "time", "order", "chunk", "lines", "mask", "use", "again")
    ]
    sm, time, order = columns[:3]
    ordered = np.lexsort((order.astype(np.int16), time, sm.astype(np.int16)))
    sm, order, chunk, lines, mask, use, again = (column[ordered] for column in (sm, order, *columns[3:]))
    edges = np.flatnonzero(np.concatenate(([True], sm[1:] != sm[:-1], [True])))
    served = np.zeros(count, dtype=np.int64)
    for start, end in pairwise(edges.tolist()):
        one = slice(start, end)
        add_served_sectors(served, capacity_bytes, chunk[one], lines[one], mask[one], order[one], use[one], again[one])
    reads = (use != STORED) & (use < AFTER_WAIT)
    accessed = np.bincount(order[reads], np.bitwise_count(mask[reads]), count).astype(np.int64)
    return accessed.tolist(), served.tolist()
