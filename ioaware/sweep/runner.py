"""Running a study: what is not in the store yet is asked, each point in its own process, each answer stored at once."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ioaware.errors import IoawareError, UsageError
from ioaware.result import Source, Status
from ioaware.result_file import encode
from ioaware.sweep import execute
from ioaware.sweep.gpu_name import gpu_name
from ioaware.sweep.points import Point
from ioaware.sweep.pool import ENTRY, TIMEOUT_S, Answer, ask, failed
from ioaware.sweep.store import Store
from ioaware.sweep.study import Study

Progress = Callable[[int, int, Point, Status], None]
"""Called with (points done, points to do, the point, its status) when a point's record is durable."""


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
    timeout_s: float = TIMEOUT_S,
    progress: Progress | None = None,
    retry_failed: bool = False,
    memory_bytes: int | None = None,
    entry: str = ENTRY,
) -> Outcome:
    """Asks every point of the study that the store does not know yet, and stores each answer before the next question.

    `sources` limits the study to some of its sources. `workers` points run at a time (default: one per core, four at
    most). A point that crashes, hangs beyond `timeout_s` or exceeds `memory_bytes` (trace only) becomes one record of
    status "failed"; `retry_failed` asks again those whose bytes do not hold. `entry` is what a worker process runs.

    Raises `UsageError` for sources the study does not have or no workers, `SweepInterruptedError` on Ctrl-C.
    """
    if (workers is not None and workers < 1) or not timeout_s > 0:
        raise UsageError(f"workers={workers}, timeout_s={timeout_s}: a sweep needs at least one worker and some time")
    asked = _chosen(study, sources)
    machine = gpu_name() if "measure" in asked else ""
    sweep = _Sweep(store, machine, progress)
    points = [point for source in asked for point in study.points if point.source == source]
    known = [store.status(point, machine=sweep.machine_of(point)) for point in points]
    again = (None, "failed", "unstable", "impossible") if retry_failed else (None,)
    todo = [point for point, status in zip(points, known, strict=True) if status in again]
    failed_before = 0 if retry_failed else known.count("failed")
    sweep.outcome = Outcome(total=len(points), already=len(points) - len(todo), failed_before=failed_before)
    here = [point for point in todo if point.source == "predict"]
    apart = [point for point in todo if point.source != "predict"]
    try:
        for point in here:
            sweep.keep(point, _predict(point))
        if apart:
            answers = ask(
                apart, workers=workers, timeout_s=timeout_s, memory_bytes=memory_bytes, skip=sweep.is_unavailable, entry=entry
            )
            with contextlib.closing(answers):
                for answer in answers:
                    sweep.take(answer)
    except KeyboardInterrupt:
        raise SweepInterruptedError(
            f"{study.name}: interrupted; {sweep.outcome.done} of {len(points)} points are stored in {store.path}",
            "The same command goes on from there.",
        ) from None
    return sweep.outcome


@dataclass
class _Sweep:
    """What grows while a study runs."""

    store: Store
    machine: str
    progress: Progress | None
    outcome: Outcome = field(default_factory=lambda: Outcome(0, 0))
    answered: set[Source] = field(default_factory=set[Source])

    def is_unavailable(self, point: Point) -> bool:
        return point.source in self.outcome.unavailable

    def take(self, answer: Answer) -> None:
        """Stores an answer. A source that this machine cannot ask at all is not its points' failure: they stay open."""
        source = answer.point.source
        if answer.lacking is not None and source not in self.answered:
            self.outcome.unavailable[source] = answer.lacking
        else:
            self.keep(answer.point, answer.record)

    def keep(self, point: Point, record: str) -> None:
        """Makes a record durable, then tells."""
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


def _predict(point: Point) -> str:
    """Predictions are sympy in this process: nothing to crash, and no second to lose on a fork server."""
    try:
        return encode(execute.answer(point.source, point.target, point.params))
    except Exception as error:
        return failed(point, str(error) if isinstance(error, IoawareError) else f"{type(error).__name__}: {error}")


def _chosen(study: Study, sources: Iterable[str] | None) -> tuple[Source, ...]:
    """The study's sources, or those of them that were asked for."""
    if sources is None:
        return study.sources
    wanted = tuple(sources)
    for source in wanted:
        if source not in study.sources:
            raise UsageError(f"study {study.name} does not ask {source!r}", f"Its sources: {', '.join(study.sources)}.")
    return tuple(source for source in study.sources if source in wanted)
