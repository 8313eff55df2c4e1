"""Asking points apart: each in a process of its own, a few at a time, and every one of them comes back as a record."""

from __future__ import annotations

import itertools
import json
import os
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioaware.result import Result
from ioaware.result_file import encode
from ioaware.sweep.isolation import Ending, Isolation
from ioaware.sweep.points import Point

ENTRY = "ioaware.sweep.execute:execute"
PRELOAD: Mapping[str, tuple[str, ...]] = {
    "trace": (
        "torch",
        "triton.runtime.interpreter",
        "triton.compiler.code_generator",
        "ioaware.tracing.trace",
        "ioaware.prediction",
        *(f"ioaware.kernels.attention.{name}" for name in ("work", "standard", "flash1", "flash2")),
    ),
    "measure": ("ioaware.measurement.measure", "ioaware.prediction"),
}
"""What the points of a source would each import, imported once before they are forked: it takes longer than a small trace."""
TIMEOUT_S = 300.0
MEASURE_MARGIN_S = 60.0
MACHINE_EXIT = 5
NOTE_LINES = 12


@dataclass(frozen=True, slots=True)
class Answer:
    """A point's record as JSON, of status "failed" where none came back. `lacking`: what this machine lacks for it."""

    point: Point
    record: str
    lacking: str | None = None


def ask(
    points: Sequence[Point],
    *,
    workers: int | None = None,
    timeout_s: float = TIMEOUT_S,
    memory_bytes: int | None = None,
    skip: Callable[[Point], bool] = lambda _: False,
    entry: str = ENTRY,
) -> Generator[Answer]:
    """Answers as they come; a point's successor starts only when the caller wants the next answer.

    `workers` points run at a time (default: one per core, four at most), each for `timeout_s` at most and, traces,
    within `memory_bytes` beyond the libraries. `skip` is asked before each point starts.
    Points lost with the fork server run again one at a time, so that only the one that kills it fails.
    """
    limit = workers or min(4, _cores())
    asked = {point.source for point in points}
    preload = [name for source in asked for name in PRELOAD.get(source, ())] if entry == ENTRY else []
    queue, suspects = deque(points), deque[Point]()
    tried: set[str] = set()
    running: dict[int, Point] = {}
    numbers = itertools.count()
    with Isolation(entry, preload=preload, threads=max(1, _cores() // limit)) as isolation:
        while queue or suspects or running:
            waiting, room = (suspects, 1) if suspects else (queue, limit)
            while waiting and len(running) < room:
                point = waiting.popleft()
                if not skip(point):
                    number = next(numbers)
                    running[number] = point
                    isolation.submit(number, *_job(point, timeout_s, limit, memory_bytes))
            if not running:
                continue
            ending = isolation.next()
            point = running.pop(ending.number)
            if ending.ended == "lost" and point.key not in tried:
                tried.add(point.key)
                suspects.append(point)
            else:
                yield _answer(point, ending)


def failed(point: Point, problem: str, printed: str = "") -> str:
    """The record of a point that gave none: what happened, and the last lines it printed."""
    lines = printed.strip().splitlines()[-NOTE_LINES:]
    notes = (problem, "\n".join(lines)) if lines else (problem,)
    return encode(Result(point.source, point.target, point.params, exact=False, status="failed", notes=notes))


def _job(point: Point, timeout_s: float, workers: int, memory_bytes: int | None) -> tuple[dict[str, Any], float, int | None]:
    """What the worker is told, its time and its memory. A measurement keeps its own time, once with counters and once
    without; beyond that, points wait for the GPU. Limiting address space would stop CUDA."""
    job = {**point.to_job(), "timeout_s": timeout_s}
    if point.source == "measure":
        return job, 2 * timeout_s * workers + MEASURE_MARGIN_S, None
    return job, timeout_s, memory_bytes


def _answer(point: Point, ending: Ending) -> Answer:
    if ending.answer is None:
        return Answer(point, failed(point, ending.problem, ending.tail))
    said: Any = json.loads(ending.answer)
    if "error" not in said:
        return Answer(point, ending.answer)
    return Answer(point, failed(point, said["error"]), said["error"] if said["exit_code"] == MACHINE_EXIT else None)


def _cores() -> int:
    return len(os.sched_getaffinity(0))
