"""Run the points of a study that its store lacks, each in its own process.

Store each record at once.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ioaware.cases import CASES
from ioaware.errors import IoawareError, UsageError
from ioaware.result import Source, Status
from ioaware.result_file import encode
from ioaware.sweep import execute
from ioaware.sweep.claims import Claims, claim_key
from ioaware.sweep.gpu_name import gpu_name
from ioaware.sweep.points import Point
from ioaware.sweep.pool import ENTRY, TIMEOUT_S, Answer, failed_record, run_points
from ioaware.sweep.store import Store
from ioaware.sweep.study import Study

POLL_S = 0.2

Progress = Callable[[int, int, Point, Status], None]
"""Arguments: points done, points in total, the point, its status.

Called when the record is durable.
"""


class SweepInterruptedError(IoawareError):
    """The user pressed Ctrl-C. Finished points are stored."""

    exit_code = 130


@dataclass
class Outcome:
    """Summary of a run.

    `unavailable` is why this machine cannot run a source; its points stay open.
    """

    total: int
    already: int
    """Points with an earlier record.

    `failed_before` of them are failures that `retry_failed` would run again.
    """
    failed_before: int = 0
    statuses: dict[Status, int] = field(default_factory=dict[Status, int])
    failed: list[tuple[Point, str]] = field(default_factory=list[tuple[Point, str]])
    unavailable: dict[Source, str] = field(default_factory=dict[Source, str])

    @property
    def done(self) -> int:
        """Number of points with a record, from this run or an earlier one."""
        return self.already + sum(self.statuses.values())


def run_study(
    study: Study,
    store: Store,
    *,
    sources: Iterable[str] | None = None,
    workers: int | None = None,
    timeout_s: float = TIMEOUT_S,
    progress: Progress | None = None,
    retry_failed: bool = False,
    memory_bytes: int | None = None,
    entry: str = ENTRY,
) -> Outcome:
    """Run every point of the study that the store lacks.

    Each record is stored before the next point.

    `sources` limits the study to some of its sources. `workers` points run at a time (default: one per core, at most four).
    A point that crashes, exceeds `timeout_s`, or (trace only) `memory_bytes`, becomes a record of status "failed".
    `retry_failed` repeats points whose bytes do not hold. `entry` is the worker's function.

    Raises `UsageError` for sources that the study lacks or no workers, `SweepInterruptedError` on Ctrl-C.
    """
    if (workers is not None and workers < 1) or not timeout_s > 0:
        raise UsageError(f"workers={workers}, timeout_s={timeout_s}: a sweep needs at least one worker and some time")
    chosen = _chosen(study, sources)
    machine = gpu_name() if "measure" in chosen else ""
    again: tuple[Status | None, ...] = (None, "failed", "unstable", "impossible") if retry_failed else (None,)
    sweep = _Sweep(store, machine, progress, again)
    points = [point for source in chosen for point in study.points if point.source == source]
    known = [store.status(point, machine=sweep.machine_of(point)) for point in points]
    todo = [point for point, status in zip(points, known, strict=True) if status in again or sweep.is_stale(point)]
    failed_before = 0 if retry_failed else known.count("failed")
    sweep.outcome = Outcome(total=len(points), already=len(points) - len(todo), failed_before=failed_before)
    here = [point for point in todo if point.source == "predict"]
    measured_first = [point for point in todo if point.source == "measure" and point.target not in CASES]
    others = [point for point in todo if point.source != "predict" and point not in measured_first]
    if not todo:
        return sweep.outcome
    try:
        with contextlib.closing(Claims(store.path)) as sweep.claims:
            for point in here:
                if not sweep.skip(point):
                    sweep.keep(point, _predict(point))
            for apart in (measured_first, others):  # what a measurement tuned is derived and traced
                if apart is others:
                    stale = [point for point in points if point not in todo and sweep.is_stale(point)]
                    sweep.outcome.already -= len(stale)
                    apart = [*others, *stale]
                while apart:
                    tuned = [sweep.tuned(point) for point in apart]
                    answers = run_points(
                        tuned, workers=workers, timeout_s=timeout_s, memory_bytes=memory_bytes, skip=sweep.skip, entry=entry
                    )
                    with contextlib.closing(answers):
                        for answer in answers:
                            sweep.take(answer)
                    apart = sweep.wait()
    except KeyboardInterrupt:
        raise SweepInterruptedError(
            f"{study.name}: interrupted; {sweep.outcome.done} of {len(points)} points are stored in {store.path}",
            "The same command continues from there.",
        ) from None
    return sweep.outcome


@dataclass
class _Sweep:
    """The state of a running study."""

    store: Store
    machine: str
    progress: Progress | None
    again: tuple[Status | None, ...]
    """Statuses of points to run; None is a point without a record."""
    outcome: Outcome = field(default_factory=lambda: Outcome(0, 0))
    available: set[Source] = field(default_factory=set[Source])
    claims: Claims | None = None
    elsewhere: list[Point] = field(default_factory=list[Point])
    """Points that another sweep is running."""

    def skip(self, point: Point) -> bool:
        """Claim a point for this sweep; True where it is not to be run now."""
        if point.source in self.outcome.unavailable:
            return True
        key = claim_key(point, self.machine_of(point))
        if self.claims is not None and not self.claims.take(key):
            self.elsewhere.append(point)
            return True
        status = self.store.status(point, machine=self.machine_of(point))
        if status is None or status in self.again or self.is_stale(point):
            return False
        self.outcome.already += 1  # another sweep has run it meanwhile
        self._end(point, status)
        return True

    def tuned(self, point: Point) -> Point:
        """Return the point with the configurations that were measured there.

        They are those of autotuned kernels.
        """
        if point.source not in ("derive", "trace") or point.target in CASES:
            return point
        return replace(point, autotune=self.store.tuning(point.of("measure")))

    def is_stale(self, point: Point) -> bool:
        """Return whether a derivation is of another configuration than the measurement."""
        if point.source != "derive" or point.target in CASES:
            return False
        measured = self.store.tuning(point.of("measure"))
        return bool(measured) and self.store.tuning(point) != measured

    def wait(self) -> list[Point]:
        """Wait for a point that another sweep is running.

        Return all of them, to be claimed again.
        """
        waiting, self.elsewhere = self.elsewhere, []
        if waiting:
            time.sleep(POLL_S)
        return [point for point in waiting if point.source not in self.outcome.unavailable]

    def take(self, answer: Answer) -> None:
        """Store an answer.

        Points of a source that this machine cannot run stay open and do not fail.
        """
        source = answer.point.source
        if answer.lacking is not None and source not in self.available:
            self.outcome.unavailable[source] = answer.lacking
            self._release(answer.point)
        else:
            self.keep(answer.point, answer.record)

    def _release(self, point: Point) -> None:
        if self.claims is not None:
            self.claims.release(claim_key(point, self.machine_of(point)))

    def _end(self, point: Point, status: Status) -> None:
        """Give up the claim on a point with a record, and report progress."""
        self._release(point)
        if self.progress is not None:
            self.progress(self.outcome.done, self.outcome.total, point, status)

    def keep(self, point: Point, record: str) -> None:
        """Make a record durable, then report progress."""
        if self.is_stale(point):
            self.store.discard(point, machine=self.machine_of(point))
        self.store.save(point, record, machine=self.machine_of(point))
        fields: Any = json.loads(record)
        status: Status = fields["status"]
        if status == "failed":
            self.outcome.failed.append((point, fields["notes"][0]))
        else:
            self.available.add(point.source)
        counts = self.outcome.statuses
        counts[status] = counts.get(status, 0) + 1
        self._end(point, status)

    def machine_of(self, point: Point) -> str:
        """Return the machine part of a record's key: measurements belong to their GPU."""
        return self.machine if point.source == "measure" else ""


def _predict(point: Point) -> str:
    """Return a prediction, computed in this process: sympy does not crash."""
    try:
        return encode(execute.run_source(point.source, point.target, point.params))
    except Exception as error:
        return failed_record(point, str(error) if isinstance(error, IoawareError) else f"{type(error).__name__}: {error}")


def _chosen(study: Study, sources: Iterable[str] | None) -> tuple[Source, ...]:
    """Return the study's sources, or the requested ones among them."""
    if sources is None:
        return study.sources
    wanted = tuple(sources)
    for source in wanted:
        if source not in study.sources:
            raise UsageError(f"study {study.name} has no source {source!r}", f"Its sources: {', '.join(study.sources)}.")
    return tuple(source for source in study.sources if source in wanted)
