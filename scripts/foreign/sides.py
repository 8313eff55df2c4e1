"""Launches of third-party kernels: derived beside counted bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from repeated_calls import Calls, Key, key_of

from ioaware.machine.model import SECTOR_BYTES
from ioaware.measurement.counters import l1_counters as l1
from ioaware.report.attention.recorded_bytes import identity
from ioaware.result import BYTES_HOLD, Launch, ParamValue, Result

Point = tuple[str, frozenset[tuple[str, ParamValue]]]
TOLERANCE = 0.005
UNEXPLAINED = "not explained"


@dataclass(frozen=True, slots=True)
class Side:
    """Reads or writes of a launch, in bytes: derived, asked of the L1, and counted.

    What is asked of the L1 is derived too, and what is counted is what counters made of that.
    """

    elements: int
    sectors: int | None
    """Of whole tiles, each access for itself; None where derive knows no exact number."""
    asked: int | None
    """Of the L1 and of TMA, by instruction, as derived; None where data decide it."""
    asked_counted: int
    hits: int
    """What the L1 did not pass on: for reads counted, for writes the rest."""
    spills: int
    atomics: int
    passed: int
    """Between the L1s and the L2: the counter of requested bytes."""
    again: int = 0
    """Of sectors that copies past the L1 fetch beyond those they request, as derived."""

    @property
    def ratio(self) -> float:
        return self.passed / self.elements if self.elements else 1.0 + (self.passed > 0)

    @property
    def requests(self) -> int:
        """What is asked of the L1 and of TMA: as derived, else as counted."""
        return self.asked_counted if self.asked is None else self.asked

    @property
    def derived(self) -> int:
        """Bytes of derived sectors; of elements where derive knows no sectors."""
        return self.elements if self.sectors is None else self.sectors

    @property
    def over_derived(self) -> float:
        """The counter over derived sectors, atomics apart.

        1 where neither has bytes.
        """
        moved = self.passed - self.atomics
        return moved / self.derived if self.derived else float(moved > 0) + 1

    @property
    def off(self) -> bool:
        """Whether the counter is farther than the tolerance from derived sectors."""
        return abs(self.over_derived - 1) > TOLERANCE

    @property
    def equal(self) -> bool:
        """The counter of requested bytes is derive's number."""
        return abs(self.ratio - 1) <= TOLERANCE

    @property
    def alone(self) -> bool:
        """Neither hits nor spills nor atomics: the L1 had no part in it."""
        return not (self.hits or self.spills or self.atomics)

    @property
    def skipped(self) -> int:
        """Bytes of sectors that are derived and not requested.

        Negative where more are requested.
        """
        return self.requests - self.asked_counted

    @property
    def rest(self) -> int:
        """What the terms do not add up to."""
        return self.passed - (self.requests + self.again - self.hits + self.spills + self.atomics)

    @property
    def closed(self) -> bool:
        """What was asked was counted to the last sector, and the terms add up."""
        return self.skipped == 0 and abs(self.rest) <= TOLERANCE * (self.requests + self.spills)

    @property
    def whole(self) -> bool:
        """Whether no more stores merged than there are stored bytes.

        Stores of several accesses may fill a sector together, as those of even and of odd lanes do.
        """
        least = min(self.elements, self.derived)
        return self.passed - self.spills - self.atomics >= least - TOLERANCE * (least + self.spills)

    @property
    def terms(self) -> tuple[int, int, int]:
        """Return the bytes between derived sectors and the counter.

        Sectors that several instructions request or copies fetch again, what the L1 did not pass on, and spilled registers.
        """
        return self.requests + self.again - self.derived, -self.hits, self.spills

    def causes(self, merged: str, tma: bool) -> str:
        """Name what moves the counter away from derived sectors, the most bytes first.

        Hits on sectors that an instruction has requested before only make up for that instruction.
        """
        if not self.off:
            return ""
        repeated, hits, spills = self.terms
        terms = {merged: -repeated - hits}
        if self.over_derived > 1:
            terms = {"whole boxes" if tma else "repeated instructions": repeated + hits, "spilled registers": spills}
        known = [name for name, size in terms.items() if size > TOLERANCE * self.derived]
        return " and ".join(sorted(known, key=lambda name: -terms[name])) or UNEXPLAINED


@dataclass(frozen=True, slots=True)
class Row:
    """One launch."""

    target: str
    params: Mapping[str, ParamValue]
    kernel: str
    reads: Side
    writes: Side
    data: tuple[float, ...] | None
    """Bytes that active threads ask for, counted over derived: reads and writes."""
    tma: bool
    configuration: Mapping[str, ParamValue] | None = None
    """Of an autotuned kernel, the one that ran."""
    exact: bool = True
    """Whether derive vouches for its bytes; where not, data decide them."""
    calls: Calls | None = None
    """Where it was counted again."""

    @property
    def predicted(self) -> bool:
        """Whether the requests of the compiled kernel are derived, and not counted alone."""
        return self.reads.asked is not None

    @property
    def closed(self) -> bool:
        """Whether the terms of both sides add up, in the recorded call or on average.

        No more stores may merge than there are stored bytes.
        """
        return self.closed_in_one_call or self.averaged

    @property
    def closed_in_one_call(self) -> bool:
        return self.reads.closed and self.writes.closed and self.writes.whole

    @property
    def averaged(self) -> bool:
        """Whether the terms add up only as means over several calls.

        Stores that the L1 merges leave fewer writes than the terms have.
        """
        if self.calls is None or self.closed_in_one_call or self.reads.skipped or self.writes.skipped:
            return False
        return self.calls.reads.within(TOLERANCE) and (self.writes.hits > 0 or self.calls.writes.within(TOLERANCE))

    @property
    def read_causes(self) -> str:
        """What moves reads away from derived sectors; empty where nothing does."""
        return self.reads.causes("L1 hits", self.tma)

    @property
    def write_causes(self) -> str:
        """What moves writes away from derived sectors; empty where nothing does."""
        return self.writes.causes("merged stores", self.tma)


def rows(measured: Iterable[Result], derived: Iterable[Result], calls: Mapping[Key, Calls] | None = None) -> list[Row]:
    """Return the launches as rows, with those of their calls that were counted again.

    Raises `ValueError` where a record has no counterpart, or one of another kernel, grid, configuration or Triton.
    """
    known = {point_of(result): result for result in derived}
    found: list[Row] = []
    for result in measured:
        if result.status not in BYTES_HOLD:
            raise ValueError(f"{result.target}: {result.status}")
        there = [launch for launch in known[point_of(result)].launches if launch.origin == "triton"]
        for counted, said in zip(result.launches, there, strict=True):
            if (ran := identity(counted)) != (meant := identity(said)):
                raise ValueError(f"{result.target} {dict(result.params)}: measured {ran}, derived {meant}")
            found.append(replace(_row(result, counted, said), calls=(calls or {}).get(key_of(result, counted))))
    return found


def point_of(result: Result) -> Point:
    """Return target and parameters, as a key."""
    return result.target, frozenset((name, value) for name, value in result.params.items() if value is not None)


def _row(result: Result, counted: Launch, said: Launch) -> Row:
    seen = counted.counters or {}
    requested, moved = said.requested, counted.requested
    if requested is None or moved is None or requested.read_bytes is None or requested.write_bytes is None:
        raise ValueError(f"{result.target}: {said.kernel} has no bytes")

    def bytes_of(name: str) -> int:
        return SECTOR_BYTES * seen[name]

    returned = bytes_of(l1.ATOMICS)
    reads = Side(
        elements=requested.read_bytes,
        sectors=requested.read_sector_bytes,
        asked=_asked(said.counters, l1.READ_SECTORS, l1.TMA_READS),
        asked_counted=SECTOR_BYTES * seen[l1.READ_SECTORS] + seen[l1.TMA_READS],
        hits=bytes_of(l1.HITS),
        spills=bytes_of(l1.SPILL_READS) - bytes_of(l1.SPILL_HITS),
        atomics=returned,
        passed=moved.read_bytes or 0,
        again=SECTOR_BYTES * (said.counters or {}).get(l1.REFETCHED, 0),
    )
    writes = Side(
        elements=requested.write_bytes,
        sectors=requested.write_sector_bytes,
        asked=_asked(said.counters, l1.WRITE_SECTORS, l1.TMA_WRITES),
        asked_counted=SECTOR_BYTES * seen[l1.WRITE_SECTORS] + seen[l1.TMA_WRITES],
        hits=0,
        spills=bytes_of(l1.SPILL_WRITES),
        atomics=returned + bytes_of(l1.REDUCTIONS),
        passed=moved.write_bytes or 0,
    )
    writes = replace(writes, hits=max(0, -writes.rest))  # stores that the L1 put together: no counter has them alone
    data = None
    if said.counters is not None:
        loaded = _over(seen[l1.READ_DATA] + seen[l1.COPY_DATA], said.counters[l1.READ_DATA])
        data = loaded, _over(seen[l1.WRITE_DATA], said.counters[l1.WRITE_DATA])
    tma = seen[l1.TMA_READS] > 0
    return Row(result.target, result.params, counted.kernel, reads, writes, data, tma, counted.configuration, said.exact)


def _asked(counters: Mapping[str, int] | None, sectors: str, by_tma: str) -> int | None:
    return None if counters is None else SECTOR_BYTES * counters[sectors] + counters[by_tma]


def _over(one: int, other: int) -> float:
    return one / other if other else 1.0
