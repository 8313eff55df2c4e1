"""Run small points several to a process.

Why: most of a small trace's time is what the first run in a process sets up.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ioaware.sweep.execute import execute
from ioaware.sweep.isolation import Isolation
from ioaware.sweep.points import Point
from ioaware.sweep.pool import Answer, make_job, make_record_answer, preloads, run_points, usable_cores

ENTRY = "ioaware.sweep.batches:execute_batch"
SIZE = 32
TIMEOUT_S = 600.0


def run_batches(points: Sequence[Point], *, size: int = SIZE, workers: int | None = None) -> Generator[Answer]:
    """Yield the answers of points that need no process of their own.

    Neighbours, which take equally long, go to different batches. The points of a process that ends without an answer run
    again, each by itself.
    """
    with started(points, size=size, workers=workers) as answers:
        yield from answers


@contextmanager
def started(points: Sequence[Point], *, size: int = SIZE, workers: int | None = None) -> Generator[Iterator[Answer]]:
    """Start the first batches, and give the answers of `run_batches`.

    Other work of the caller then runs beside them.
    """
    cores = usable_cores()
    limit = workers or min(4, cores)
    count = -(-len(points) // size)
    batches = [points[first::count] for first in range(count)]
    with Isolation(ENTRY, preload=preloads(points), threads=max(1, cores // limit)) as isolation:
        running: dict[int, Sequence[Point]] = {}
        waiting = iter(enumerate(batches))

        def submit(free: int) -> None:
            for number, batch in itertools.islice(waiting, free):
                running[number] = batch
                isolation.submit(number, [make_job(point, TIMEOUT_S, limit, None)[0] for point in batch], TIMEOUT_S)

        def answers() -> Generator[Answer]:
            again: list[Point] = []
            while running:
                outcome = isolation.next()
                batch = running.pop(outcome.number)
                submit(1)
                if outcome.answer is None:
                    again += batch
                else:
                    yield from map(make_record_answer, batch, json.loads(outcome.answer))
            if again:
                yield from run_points(again, workers=workers)

        submit(limit)
        yield answers()


def execute_batch(jobs: Sequence[dict[str, Any]]) -> str:
    """Run each `Point.to_job()`; return the list of their records as JSON."""
    return json.dumps([execute(job) for job in jobs])
