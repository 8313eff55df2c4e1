"""Running a study: what is not in the store yet is asked, each point in its own process, each answer stored at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
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
PRELOAD = {"trace": ("torch", "triton", "ioaware.instruments.trace"), "measure": ("ioaware.instruments.measure",)}
MACHINE_EXIT = 5
NOTE_LINES = 12


class SweepInterruptedError(IoawareError):
    """Ctrl-C. What is finished is stored."""

    exit_code = 130


@dataclass
class Outcome:
    """What a run of a study came to. `unavailable` tells why this machine cannot ask a source; its points stay open."""

    total: int
    already: int
    statuses: dict[Status, int] = field(default_factory=dict[Status, int])
    failed: list[tuple[Point, str]] = field(default_factory=list[tuple[Point, str]])
    unavailable: dict[Source, str] = field(default_factory=dict[Source, str])


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

    Raises `UsageError` for sources the study does not have, `SweepInterruptedError` on Ctrl-C.
    """
    return _Sweep(study, store, sources, workers, timeout_s, progress, retry_failed, memory_bytes, entry).run()


class _Sweep:
    def __init__(
        self,
        study: Study,
        store: Store,
        sources: Iterable[str] | None,
        workers: int | None,
        timeout_s: float,
        progress: Progress | None,
        retry_failed: bool,
        memory_bytes: int | None,
        entry: str,
    ) -> None:
        self.store, self.timeout_s, self.progress, self.memory_bytes = store, timeout_s, progress, memory_bytes
        self.workers = workers or min(4, len(os.sched_getaffinity(0)))
        self.entry = entry
        self.study = study
        asked = _chosen(study, sources)
        self.machine = gpu_name() if "measure" in asked else ""
        points = [point for source in asked for point in study.points if point.source == source]
        again = (None, "failed", "unstable", "impossible") if retry_failed else (None,)
        self.open = [point for point in points if store.status(point, machine=self._machine(point)) in again]
        self.outcome = Outcome(total=len(points), already=len(points) - len(self.open))
        self.answered: set[Source] = set()

    def run(self) -> Outcome:
        here = [point for point in self.open if point.source == "predict"]
        apart = [point for point in self.open if point.source != "predict"]
        try:
            for point in here:
                self._predict(point)
            if apart:
                self._isolate(apart)
        except KeyboardInterrupt:
            done = self.outcome.already + sum(self.outcome.statuses.values())
            raise SweepInterruptedError(
                f"{self.study.name}: interrupted; {done} of {self.outcome.total} points are stored in {self.store.path}",
                "The same command goes on from there.",
            ) from None
        return self.outcome

    def _predict(self, point: Point) -> None:
        """Predictions are sympy in this process: nothing to crash, and no second to lose on a fork server."""
        try:
            self._keep(point, encode(answer(point.source, point.target, point.params)))
        except Exception as error:
            self._fail(point, str(error) if isinstance(error, IoawareError) else f"{type(error).__name__}: {error}")

    def _isolate(self, points: Sequence[Point]) -> None:
        """Keeps `workers` points running; one is stored before another takes its place."""
        preload = [name for source, names in PRELOAD.items() if any(p.source == source for p in points) for name in names]
        cores = len(os.sched_getaffinity(0))
        queue = list(enumerate(points))[::-1]
        running: dict[int, Point] = {}
        with Isolation(self.entry, preload=preload, threads=max(1, cores // self.workers)) as isolation:
            while queue or running:
                while queue and len(running) < self.workers:
                    number, point = queue.pop()
                    if point.source not in self.outcome.unavailable:
                        running[number] = point
                        memory = self.memory_bytes if point.source == "trace" else None
                        isolation.submit(number, point.to_job(), timeout_s=self.timeout_s, memory_bytes=memory)
                if running:
                    ending = isolation.next()
                    self._finish(running.pop(ending.number), ending)

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
        self.outcome.failed.append((point, problem))
        self._keep(point, encode(record))

    def _keep(self, point: Point, record: str) -> None:
        self.store.save(point, record, machine=self._machine(point))
        status: Status = json.loads(record)["status"]
        if status != "failed":
            self.answered.add(point.source)
        counts = self.outcome.statuses
        counts[status] = counts.get(status, 0) + 1
        if self.progress is not None:
            self.progress(self.outcome.already + sum(counts.values()), self.outcome.total, point, status)

    def _machine(self, point: Point) -> str:
        return self.machine if point.source == "measure" else ""


def _chosen(study: Study, sources: Iterable[str] | None) -> tuple[Source, ...]:
    """The study's sources, or those of them that were asked for."""
    if sources is None:
        return study.sources
    wanted = tuple(sources)
    for source in wanted:
        if source not in study.sources:
            raise UsageError(f"study {study.name} does not ask {source!r}", f"Its sources: {', '.join(study.sources)}.")
    return tuple(source for source in study.sources if source in wanted)
