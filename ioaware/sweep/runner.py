"""Running a study: what is not in the store yet is asked, each point in its own process, each answer stored at once."""

from __future__ import annotations

import itertools
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ioaware.errors import IoawareError, UsageError
from ioaware.record import encode
from ioaware.sweep.execute import answer
from ioaware.sweep.gpu import gpu_name
from ioaware.sweep.isolate import Ending, Isolation
from ioaware.sweep.points import Point
from ioaware.sweep.store import Store
from ioaware.sweep.study import Study
from ioaware.traffic import Result, Source, Status

Progress = Callable[[int, int, Point, Status], None]
"""Called with (points done, points to do, the point, its status) when a point's record is durable."""

ENTRY = "ioaware.sweep.execute:execute"
PRELOAD: Mapping[str, tuple[str, ...]] = {
    "trace": ("torch", "triton", "ioaware.instruments.trace"),
    "measure": ("ioaware.instruments.measure",),
}
MACHINE_EXIT = 5
MEASURE_MARGIN_S = 60.0
NOTE_LINES = 12


class SweepInterruptedError(IoawareError):
    """Ctrl-C. What is finished is stored."""

    exit_code = 130


@dataclass
class Outcome:
    """What a run of a study came to. `unavailable` tells why this machine cannot ask a source; its points stay open."""

    total: int
    already: int
    """Points with a record from before, `failed_before` of them a failure that `retry_failed` would ask again."""
    failed_before: int = 0
    statuses: dict[Status, int] = field(default_factory=dict[Status, int])
    failed: list[tuple[Point, str]] = field(default_factory=list[tuple[Point, str]])
    unavailable: dict[Source, str] = field(default_factory=dict[Source, str])

    @property
    def done(self) -> int:
        """Points with a record, from this run or before."""
        return self.already + sum(self.statuses.values())


def run_study(
    study: Study,
    store: Store,
    *,
    sources: Iterable[str] | None = None,
    workers: int | None = None,
    timeout_s: float = 300.0,
    progress: Progress | None = None,
    retry_failed: bool = False,
    memory_bytes: int | None = None,
    entry: str = ENTRY,
) -> Outcome:
    """Asks every point of the study that the store does not know yet, and stores each answer before the next question.

    `sources` limits the study to some of its sources. `workers` points run at a time (default: one per core, four at
    most). A point that crashes, hangs beyond `timeout_s` or exceeds `memory_bytes` (trace only) becomes one record of
    status "failed"; `retry_failed` asks again those whose record is not "ok". `entry` is what a worker process runs.

    Raises `UsageError` for sources the study does not have or no workers, `SweepInterruptedError` on Ctrl-C.
    """
    if (workers is not None and workers < 1) or not timeout_s > 0:
        raise UsageError(f"workers={workers}, timeout_s={timeout_s}: a sweep needs at least one worker and some time")
    asked = _chosen(study, sources)
    machine = gpu_name() if "measure" in asked else ""
    sweep = _Sweep(store, machine, workers or min(4, _cores()), timeout_s, memory_bytes, entry, progress)
    points = [point for source in asked for point in study.points if point.source == source]
    again = (None, "failed", "unstable", "impossible") if retry_failed else (None,)
    known = [store.status(point, machine=sweep.machine_of(point)) for point in points]
    todo = [point for point, status in zip(points, known, strict=True) if status in again]
    failed_before = 0 if retry_failed else known.count("failed")
    sweep.outcome = Outcome(total=len(points), already=len(points) - len(todo), failed_before=failed_before)
    try:
        for point in todo:
            if point.source == "predict":
                sweep.predict(point)
        sweep.isolate([point for point in todo if point.source != "predict"])
    except KeyboardInterrupt:
        raise SweepInterruptedError(
            f"{study.name}: interrupted; {sweep.outcome.done} of {len(points)} points are stored in {store.path}",
            "The same command goes on from there.",
        ) from None
    return sweep.outcome


@dataclass
class _Sweep:
    store: Store
    machine: str
    workers: int
    timeout_s: float
    memory_bytes: int | None
    entry: str
    progress: Progress | None
    outcome: Outcome = field(default_factory=lambda: Outcome(0, 0))
    answered: set[Source] = field(default_factory=set[Source])

    def predict(self, point: Point) -> None:
        """Predictions are sympy in this process: nothing to crash, and no second to lose on a fork server."""
        try:
            self._keep(point, encode(answer(point.source, point.target, point.params)))
        except Exception as error:
            self._fail(point, str(error) if isinstance(error, IoawareError) else f"{type(error).__name__}: {error}")

    def isolate(self, points: Sequence[Point]) -> None:
        """Keeps `workers` points running; one is stored before another takes its place.

        Points lost with the fork server run again one at a time, so that only the one that kills it fails.
        """
        asked = {point.source for point in points}
        preload = [name for source in asked for name in PRELOAD[source]] if self.entry == ENTRY else []
        queue, suspects = deque(points), deque[Point]()
        tried: set[str] = set()
        running: dict[int, Point] = {}
        numbers = itertools.count()
        with Isolation(self.entry, preload=preload, threads=max(1, _cores() // self.workers)) as isolation:
            while queue or suspects or running:
                waiting, limit = (suspects, 1) if suspects else (queue, self.workers)
                while waiting and len(running) < limit:
                    point = waiting.popleft()
                    if point.source not in self.outcome.unavailable:
                        number = next(numbers)
                        running[number] = point
                        self._submit(isolation, number, point)
                if not running:
                    continue
                ending = isolation.next()
                point = running.pop(ending.number)
                if ending.ended == "lost" and point.key not in tried:
                    tried.add(point.key)
                    suspects.append(point)
                else:
                    self._finish(point, ending)

    def _submit(self, isolation: Isolation, number: int, point: Point) -> None:
        """A measurement keeps its own time, once with counters and once without; beyond it, points wait for the GPU."""
        trace = point.source == "trace"
        job = {**point.to_job(), "timeout_s": self.timeout_s}
        limit_s = self.timeout_s if trace else 2 * self.timeout_s * self.workers + MEASURE_MARGIN_S
        isolation.submit(number, job, timeout_s=limit_s, memory_bytes=self.memory_bytes if trace else None)

    def _finish(self, point: Point, ending: Ending) -> None:
        """Stores what a worker said, or that it said nothing."""
        if ending.answer is None:
            self._fail(point, ending.problem, ending.tail)
            return
        said: Any = json.loads(ending.answer)
        if "error" not in said:
            self._keep(point, ending.answer)
        elif said["exit_code"] == MACHINE_EXIT and point.source not in self.answered:
            self.outcome.unavailable[point.source] = said["error"]
        else:
            self._fail(point, said["error"])

    def _fail(self, point: Point, problem: str, tail: str = "") -> None:
        """One record that says what happened, with the last lines the point printed."""
        lines = tail.strip().splitlines()[-NOTE_LINES:]
        notes = (problem, "\n".join(lines)) if lines else (problem,)
        record = Result(point.source, point.target, point.params, exact=False, status="failed", notes=notes)
        self._keep(point, encode(record))

    def _keep(self, point: Point, record: str) -> None:
        self.store.save(point, record, machine=self.machine_of(point))
        said: Any = json.loads(record)
        status: Status = said["status"]
        if status == "failed":
            self.outcome.failed.append((point, said["notes"][0]))
        else:
            self.answered.add(point.source)
        counts = self.outcome.statuses
        counts[status] = counts.get(status, 0) + 1
        if self.progress is not None:
            self.progress(self.outcome.done, self.outcome.total, point, status)

    def machine_of(self, point: Point) -> str:
        """What a record is remembered under beside its point: measurements belong to their GPU."""
        return self.machine if point.source == "measure" else ""


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _chosen(study: Study, sources: Iterable[str] | None) -> tuple[Source, ...]:
    """The study's sources, or those of them that were asked for."""
    if sources is None:
        return study.sources
    wanted = tuple(sources)
    for source in wanted:
        if source not in study.sources:
            raise UsageError(f"study {study.name} does not ask {source!r}", f"Its sources: {', '.join(study.sources)}.")
    return tuple(source for source in study.sources if source in wanted)
