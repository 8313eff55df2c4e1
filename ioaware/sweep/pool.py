"""Run points in parallel, each in its own process; every point yields a record."""

from __future__ import annotations

import itertools
import json
import os
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ioaware.display.text import shorten
from ioaware.errors import IoawareError
from ioaware.result import Result, Status
from ioaware.result_file import encode
from ioaware.sweep import execute
from ioaware.sweep.isolation import Isolation, Outcome
from ioaware.sweep.points import Point

ENTRY = "ioaware.sweep.execute:execute"
PRELOAD: Mapping[str, tuple[str, ...]] = {
    "trace": (
        "torch",
        "triton.runtime.interpreter",
        "triton.compiler.code_generator",
        "ioaware.tracing.trace",
        "ioaware.prediction",
        "torch._subclasses.schema_check_mode",
        "ioaware.sweep.preloaded",
    ),
    "derive": (
        "torch",
        "triton.compiler.code_generator",
        "ioaware.derivation.derive",
        "torch._subclasses.schema_check_mode",
        "torch.distributed.tensor",
        "ioaware.sweep.preloaded",
    ),
    "measure": ("ioaware.measurement.measure", "ioaware.prediction"),
}
"""Modules that all points of a source need, imported once before forking.

Importing takes longer than a small trace. torch imports `torch.distributed.tensor` at the first slice of a fake tensor.
"""
TIMEOUT_S = 300.0
MEASURE_MARGIN_S = 60.0
MACHINE_EXIT = 5
NOTE_LINES = 12
LONGEST_NOTE = 4_000
"""Most characters of an error; the fork server limits the end of the output."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Record of a point as JSON and its status, "failed" where it gave none.

    `lacking` is what this machine lacks for it, `machine` the GPU of the worker that ran it, in a cluster. `more`: answers of
    the same task follow at once.
    """

    point: Point
    record: str
    status: Status
    lacking: str | None = None
    machine: str = ""
    more: bool = False


def run_points(
    points: Sequence[Point],
    *,
    workers: int | None = None,
    timeout_s: float = TIMEOUT_S,
    memory_bytes: int | None = None,
    skip: Callable[[Point], bool] = lambda _: False,
    entry: str = ENTRY,
) -> Generator[Answer]:
    """Yield answers as points end.

    The next point starts when the caller takes the next answer.

    `workers` points run at a time (default: one per core, at most four), each for at most `timeout_s`. Traces get at most
    `memory_bytes` beyond the libraries. `skip` is called before each point starts. Points lost with the fork server run
    again one at a time, so that only the point that kills it fails.
    """
    limit = workers or min(4, usable_cores())
    preload = preloads(points) if entry == ENTRY else []
    queue, suspects = deque(points), deque[Point]()
    tried: set[str] = set()
    running: dict[int, Point] = {}
    numbers = itertools.count()
    with Isolation(entry, preload=preload, threads=max(1, usable_cores() // limit)) as isolation:
        while queue or suspects or running:
            waiting, room = (suspects, 1) if suspects else (queue, limit)
            while waiting and len(running) < room:
                point = waiting.popleft()
                if not skip(point):
                    number = next(numbers)
                    running[number] = point
                    isolation.submit(number, *make_job(point, timeout_s, limit, memory_bytes))
            if not running:
                continue
            outcome = isolation.next()
            point = running.pop(outcome.number)
            if outcome.ended == "lost" and point.key not in tried:
                tried.add(point.key)
                suspects.append(point)
            else:
                yield make_answer(point, outcome)


def predict_answer(point: Point, environment: Mapping[str, Any] | None = None) -> Answer:
    """Return the answer of a prediction, computed in this process.

    Why: sympy does not crash. `environment` is added to the record.
    """
    try:
        result = execute.run_source(point.source, point.target, point.params)
        found = result if environment is None else replace(result, environment=environment)
        return Answer(point, encode(found), result.status)
    except Exception as error:
        problem = str(error) if isinstance(error, IoawareError) else f"{type(error).__name__}: {error}"
        return Answer(point, failed_record(point, problem, environment=environment), "failed")


def failed_record(point: Point, problem: str, printed: str = "", *, environment: Mapping[str, Any] | None = None) -> str:
    """Return the record of a point without an answer.

    It says what happened, and holds the end of the output.
    """
    lines = printed.strip().splitlines()[-NOTE_LINES:]
    problem = shorten(problem, LONGEST_NOTE)
    notes = (problem, "\n".join(lines)) if lines else (problem,)
    result = Result(
        point.source, point.target, point.params, exact=False, status="failed", notes=notes, environment=environment
    )
    return encode(result)


def make_job(
    point: Point, timeout_s: float, workers: int, memory_bytes: int | None
) -> tuple[dict[str, Any], float, int | None]:
    """Return the job of a point's process, with its limits in seconds and bytes.

    A measurement limits itself, once with counters and once without; beyond that, points wait for the GPU. A limit on
    address space would stop CUDA.
    """
    job = {**point.to_job(), "timeout_s": timeout_s}
    if point.source == "measure":
        return job, 2 * timeout_s * workers + MEASURE_MARGIN_S, None
    return job, timeout_s, memory_bytes


def make_answer(point: Point, outcome: Outcome) -> Answer:
    """Return the answer of a point whose process has ended."""
    if outcome.answer is None:
        return Answer(point, failed_record(point, outcome.problem, outcome.tail), "failed")
    return make_record_answer(point, outcome.answer)


def make_record_answer(point: Point, record: str) -> Answer:
    """Return the answer of a point that ran: its record, or the error in it."""
    answer: Any = json.loads(record)
    if "error" not in answer:
        return Answer(point, record, answer["status"])
    lacking = answer["error"] if answer["exit_code"] == MACHINE_EXIT else None
    return Answer(point, failed_record(point, answer["error"]), "failed", lacking)


def preloads(points: Sequence[Point]) -> list[str]:
    """Return the modules that the fork server imports for these points."""
    return list(dict.fromkeys(name for point in points for name in PRELOAD.get(point.source, ())))


def usable_cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0))
