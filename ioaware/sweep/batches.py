"""Run small points several to a process.

Why: most of a small trace's time is what the first run in a process sets up.
"""

from __future__ import annotations

import importlib
import itertools
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from ioaware._deferred_gc import deferred_full_gc
from ioaware.sweep.execute import execute
from ioaware.sweep.isolation import Isolation
from ioaware.sweep.points import Point
from ioaware.sweep.pool import Answer, make_job, make_record_answer, preloads, run_points, usable_cores

ENTRY = "ioaware.sweep.batches:execute_batch"
SIZE = 64
"""Points of a process, which makes its first one at twice the time of a later one."""
TIMEOUT_S = 600.0


def run_batches(points: Sequence[Point], *, size: int = SIZE, workers: int | None = None) -> Generator[Answer]:
    """Yield the answers of points that need no process of their own.

    Neighbours, which take equally long, go to different batches. The points of a process that ends without an answer run
    again, each by itself.
    """
    with started(points, size=size, workers=workers) as answers:
        yield from answers


@contextmanager
def started(
    points: Sequence[Point],
    *,
    size: int = SIZE,
    workers: int | None = None,
    calls: Mapping[str, Callable[[str | None], None]] = MappingProxyType({}),
) -> Generator[Iterator[Answer]]:
    """Start the first batches, and give the answers of `run_batches`.

    Other work of the caller then runs beside them. `calls` are functions `module:name` that return text. They run in
    processes of the same kind, before the batches. Each has what takes its text, or None where its process ended without one.
    """
    cores = usable_cores()
    limit = workers or min(4, cores)
    count = -(-len(points) // size)
    batches = [points[first::count] for first in range(count)]
    with Isolation(ENTRY, preload=preloads(points), threads=max(1, cores // limit)) as isolation:
        running: dict[int, Sequence[Point] | str] = {}
        waiting: Iterator[tuple[int, Sequence[Point] | str]] = iter(enumerate([*calls, *batches]))

        def submit(free: int) -> None:
            for number, work in itertools.islice(waiting, free):
                running[number] = work
                is_call = isinstance(work, str)
                jobs = [{"call": work}] if is_call else [make_job(point, TIMEOUT_S, limit, None)[0] for point in work]
                isolation.submit(number, jobs, TIMEOUT_S)

        def answers() -> Generator[Answer]:
            again: list[Point] = []
            while running:
                outcome = isolation.next()
                work = running.pop(outcome.number)
                submit(1)
                found = None if outcome.answer is None else json.loads(outcome.answer)
                if isinstance(work, str):
                    calls[work](found and found[0])
                elif found is None:
                    again += work
                else:
                    yield from map(make_record_answer, work, found)
            if again:
                yield from run_points(again, workers=workers)

        submit(limit)
        yield answers()


def execute_batch(jobs: Sequence[dict[str, Any]]) -> str:
    """Run each `Point.to_job()` or call; return their records or texts as JSON."""
    with deferred_full_gc():
        return json.dumps([_called(job["call"]) if "call" in job else execute(job) for job in jobs])


def _called(entry: str) -> str:
    module, _, function = entry.partition(":")
    return getattr(importlib.import_module(module), function)()
