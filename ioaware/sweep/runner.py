"""Run the points of a study that its store lacks, each in its own process.

Store each record at once.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ioaware.cases import CASES
from ioaware.errors import IoawareError, UsageError
from ioaware.result import Source, Status
from ioaware.sweep.claims import Claims, claim_key
from ioaware.sweep.gpu_name import gpu_name
from ioaware.sweep.points import Point
from ioaware.sweep.pool import ENTRY, TIMEOUT_S, Answer, predict_answer, run_points
from ioaware.sweep.store import Store
from ioaware.sweep.study import Study

POLL_S = 0.2
CHUNK, CHUNK_S = 64, 0.5
"""Most predictions that become durable together, and their longest wait in s.

Why: each takes a millisecond, and a transaction of its own as much again.
"""

Progress = Callable[[int, int, Point, Status], None]
"""Arguments: points done, points in total, the point, its status.

Called when the record is durable.
"""


class Cluster(Protocol):
    """Workers of other processes or hosts that run points."""

    def machines(self) -> tuple[str, ...]:
        """Return the names of the workers' GPUs, each once."""
        ...

    def run_points(
        self,
        points: Sequence[Point],
        *,
        timeout_s: float,
        memory_bytes: int | None,
        skip: Callable[[Point], bool],
        entry: str,
    ) -> Generator[Answer]:
        """Yield answers as points end, as `pool.run_points` does."""
        ...


class SweepInterruptedError(IoawareError):
    """The user pressed Ctrl-C. Finished points are stored."""

    exit_code = 130


@dataclass
class Outcome:
    """Summary of a run.

    `unavailable` is why this machine or cluster cannot run a source; its points stay open.
    """

    total: int
    already: int
    """Points with an earlier record.

    `failed_before` of them are failures that `retry_failed` would run again.
    """
    failed_before: int = 0
    statuses: dict[Status, int] = field(default_factory=dict[Status, int])
    failed: list[tuple[Point, str]] = field(default_factory=list[tuple[Point, str]])
    unavailable: dict[str, str] = field(default_factory=dict[str, str])
    machines: tuple[str, ...] = field(default=(), compare=False)
    """GPUs whose measurements count: this machine's, or those of the cluster."""

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
    cluster: Cluster | None = None,
) -> Outcome:
    """Run every point of the study that the store lacks.

    Each record is stored before the next point.

    `sources` limits the study to some of its sources. `workers` points run at a time (default: one per core, at most four).
    A point that crashes, exceeds `timeout_s`, or (trace only) `memory_bytes`, becomes a record of status "failed".
    `retry_failed` repeats points whose bytes do not hold. `entry` is the worker's function. A `cluster` runs every point on
    its workers, predictions included; this process alone writes the store.

    Raises `UsageError` for sources that the study lacks or no workers, `SweepInterruptedError` on Ctrl-C.
    """
    if (workers is not None and workers < 1) or not timeout_s > 0:
        raise UsageError(
            f"workers={workers}, timeout_s={timeout_s}: a sweep needs at least one worker and some time", "Give larger numbers."
        )
    chosen = _chosen(study, sources)
    machines = () if "measure" not in chosen else (gpu_name(),) if cluster is None else cluster.machines()
    again: tuple[Status | None, ...] = (None, "failed", "unstable", "impossible") if retry_failed else (None,)
    sweep = _Sweep(store, machines, progress, again, on_cluster=cluster is not None)
    points = [point for source in chosen for point in study.points if point.source == source]
    known = [sweep.status(point) for point in points]
    todo = [point for point, status in zip(points, known, strict=True) if status in again or sweep.is_stale(point)]
    failed_before = 0 if retry_failed else known.count("failed")
    sweep.outcome = Outcome(total=len(points), already=len(points) - len(todo), failed_before=failed_before)
    sweep.outcome.machines = machines
    if cluster is None:
        sweep.refuse_other_machines(todo)
    here = [point for point in todo if point.source == "predict" and cluster is None]
    measured_first = [point for point in todo if point.source == "measure" and point.target not in CASES]
    others = [point for point in todo if point not in here and point not in measured_first]
    if not todo:
        return sweep.outcome
    try:
        with contextlib.closing(Claims(store.path)) as sweep.claims, sweep.flushed_when_interrupted():
            while here:
                for point in here:
                    if not sweep.skip(point):
                        sweep.keep(predict_answer(point), more=not sweep.is_full)
                sweep.flush()
                here = sweep.wait()
            for apart in (measured_first, others):  # what a measurement tuned is derived and traced
                if apart is others:
                    stale = [point for point in points if point not in todo and sweep.is_stale(point)]
                    sweep.outcome.already -= len(stale)
                    apart = [*others, *stale]
                while apart:
                    tuned = [sweep.tuned(point) for point in apart]
                    run = functools.partial(run_points, workers=workers) if cluster is None else cluster.run_points
                    answers = run(tuned, timeout_s=timeout_s, memory_bytes=memory_bytes, skip=sweep.skip, entry=entry)
                    with contextlib.closing(answers):
                        for answer in answers:
                            sweep.take(answer)
                    sweep.flush()
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
    machines: tuple[str, ...]
    progress: Progress | None
    again: tuple[Status | None, ...]
    """Statuses of points to run; None is a point without a record."""
    on_cluster: bool = False
    """Return whether no worker can run the point.

    The answer names what is lacking.
    """
    outcome: Outcome = field(default_factory=lambda: Outcome(0, 0))
    available: set[str] = field(default_factory=set[str])
    claims: Claims | None = None
    elsewhere: list[Point] = field(default_factory=list[Point])
    """Points that another sweep is running."""
    pending: list[tuple[Point, str, Status, str]] = field(default_factory=list[tuple[Point, str, Status, str]])
    """Points, records, their status and GPUs that are not durable yet."""
    pending_since: float = 0.0

    def skip(self, point: Point) -> bool:
        """Claim a point for this sweep; True where it is not to be run now."""
        if point.need in self.outcome.unavailable:
            return True
        if self.claims is not None and not self.claims.take(self._claim(point)):
            self.elsewhere.append(point)
            return True
        status = self.status(point)
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
        return [point for point in waiting if point.need not in self.outcome.unavailable]

    def take(self, answer: Answer) -> None:
        """Store an answer.

        Points of a source that this machine cannot run stay open and do not fail.
        """
        need = answer.point.need
        if answer.lacking is not None and (self.on_cluster or need not in self.available):
            self.outcome.unavailable[need] = answer.lacking
            self._release(answer.point)
        else:
            self.keep(answer, more=answer.more and not self.is_full)

    def refuse_other_machines(self, points: Iterable[Point]) -> None:
        """Leave points open that name a GPU which this machine does not have."""
        for point in points:
            if point.machine and point.machine not in self.machines:
                self.outcome.unavailable[point.need] = f"the GPU of this machine: {', '.join(self.machines)}"

    def _release(self, point: Point) -> None:
        if self.claims is not None:
            self.claims.release(self._claim(point))

    def _claim(self, point: Point) -> str:
        return claim_key(point, "\n".join(self.machines_of(point)))

    def _end(self, point: Point, status: Status) -> None:
        """Give up the claim on a point with a record, and report progress."""
        self._release(point)
        if self.progress is not None:
            self.progress(self.outcome.done, self.outcome.total, point, status)

    @property
    def is_full(self) -> bool:
        """Whether the next record is to make all pending ones durable."""
        waits = bool(self.pending) and time.monotonic() - self.pending_since > CHUNK_S
        return waits or len(self.pending) + 1 >= CHUNK

    def keep(self, answer: Answer, *, more: bool = False) -> None:
        """Make a record durable under the GPU that measured it, then report progress.

        more: further records follow at once, and all become durable with the last one.
        """
        point = answer.point
        machine = answer.machine if answer.machine and point.source == "measure" else self.machines_of(point)[0]
        if machine and machine not in self.outcome.machines:  # of a worker that joined later
            self.outcome.machines += (machine,)
        if not self.pending:
            self.pending_since = time.monotonic()
        self.pending.append((point, answer.record, answer.status, machine))
        if not more:
            self.flush()

    @contextlib.contextmanager
    def flushed_when_interrupted(self) -> Generator[None]:
        """Store on Ctrl-C what is ready."""
        try:
            yield
        except KeyboardInterrupt:
            self.flush()
            raise

    def flush(self) -> None:
        """Make the pending records durable in one transaction, then report progress."""
        if not self.pending:
            return
        for point, _, _, machine in self.pending:
            if self.is_stale(point):
                self.store.discard(point, machine=machine)
        self.store.save_all(self.pending)
        pending, self.pending = self.pending, []
        for point, record, status, _ in pending:
            self._count(point, record, status)

    def _count(self, point: Point, record: str, status: Status) -> None:
        """Count a durable record."""
        if status == "failed":
            self.outcome.failed.append((point, json.loads(record)["notes"][0]))
        else:
            self.available.add(point.need)
        counts = self.outcome.statuses
        counts[status] = counts.get(status, 0) + 1
        self._end(point, status)

    def machines_of(self, point: Point) -> tuple[str, ...]:
        """Return the GPUs under which this sweep looks for a point's record."""
        return point_machines(point, self.machines)

    def status(self, point: Point) -> Status | None:
        """Return the status of a point's record of any of its GPUs.

        A record that is not to be run again comes first.
        """
        return point_status(self.store, point, self.machines, self.again)


def point_machines(point: Point, machines: Sequence[str]) -> tuple[str, ...]:
    """Return the GPUs under which a point's record may be.

    Measurements belong to their GPU.
    """
    if point.source != "measure":
        return ("",)
    return (point.machine,) if point.machine else tuple(machines)


def point_status(
    store: Store, point: Point, machines: Sequence[str], again: Sequence[Status | None] = (None, "failed")
) -> Status | None:
    """Return the status of a point's record under any GPU that counts for it.

    A record that is not in `again` comes first.
    """
    found: list[Status | None] = [store.status(point, machine=machine) for machine in point_machines(point, machines)]
    known: list[Status] = [status for status in found if status is not None]
    final: list[Status] = [status for status in known if status not in again]
    return (final or known or [None])[0]


def _chosen(study: Study, sources: Iterable[str] | None) -> tuple[Source, ...]:
    """Return the study's sources, or the requested ones among them."""
    if sources is None:
        return study.sources
    wanted = tuple(sources)
    for source in wanted:
        if source not in study.sources:
            raise UsageError(f"study {study.name} has no source {source!r}", f"Its sources: {', '.join(study.sources)}.")
    return tuple(source for source in study.sources if source in wanted)
