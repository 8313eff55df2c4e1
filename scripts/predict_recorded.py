"""Predict every recorded point again by the present model, in many processes.

    PYTHONPATH=. FOREIGN_LIGER=PATH ... python scripts/predict_recorded.py FOLDER [--processes 32] [--only TEXT] [--for 480]

FOLDER gets `predictions.jsonl` (single launches, the L2 emptied before each), `steady.jsonl` (calls in steady state),
`cost.jsonl` (CPU seconds and peak memory of each point) and `environment.json` (commit and versions). Each point has its own
forked process with a limit of time. Files are written after every point, and points that they have are not predicted again.

Points come in three groups: outliers at HBM of the recorded predictions, then held-out points, then all others. Each group is
in an order by a hash of the point's name, so that a part of it is of no one kind. When the time of --for is over, running
points are stopped and left for the next run.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

from ioaware.environment import software_environment
from ioaware.machine import find_machine_or_file
from ioaware.result import Result
from ioaware.simulation.accuracy import Prediction, point_key
from ioaware.simulation.accuracy_record.recorded_accuracy import recorded_accuracy
from ioaware.simulation.accuracy_record.steady_state import CALL, is_steady, predict_call
from ioaware.simulation.predictions import measured_points, predict_point, read_predictions, write_predictions

MODULES = ("ioaware.simulation.simulate", "ioaware.derivation.derive", "ioaware.targets.target")
LIMIT_S = 240.0
POLL_S = 0.02
Key = tuple[bool, str]
FILES = {False: "predictions.jsonl", True: "steady.jsonl"}
COST = "cost.jsonl"


@dataclass
class Record:
    """Predictions of a folder, by whether they are of calls in steady state."""

    folder: Path
    found: dict[bool, list[Prediction]] = field(default_factory=dict[bool, list[Prediction]])

    def __post_init__(self) -> None:
        """Read what an earlier run wrote."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.found = {steady: read_predictions(self.folder / name) for steady, name in FILES.items()}

    def add(self, steady: bool, one: Prediction, cost: dict[str, object]) -> None:
        """Write one more prediction and what it cost."""
        self.found[steady].append(one)
        write_predictions(self.found[steady], self.folder / FILES[steady])
        with (self.folder / COST).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"point": point_key(one.target, one.params), "steady": steady, **cost}) + "\n")

    def missing(self, points: Iterable[Result], groups: Sequence[Collection[Key]] = ()) -> list[Result]:
        """Return the points without a prediction, each once, group by group.

        Within a group the order mixes kinds and is the same each time. Points of no group come last.
        """
        known = {(steady, point_key(one.target, one.params)) for steady, all_ in self.found.items() for one in all_}
        left = {key_of(one): one for one in points}

        def place(key: Key) -> tuple[int, bytes]:
            group = next((at for at, keys in enumerate(groups) if key in keys), len(groups))
            return group, hashlib.sha256(repr(key).encode()).digest()

        return [left[key] for key in sorted(left.keys() - known, key=place)]


def key_of(point: Result) -> Key:
    """Return whether a point is of calls in steady state, and its name."""
    return is_steady(point), point_key(point.target, point.params)


def first_groups(points: Sequence[Result]) -> list[set[Key]]:
    """Return the outliers at HBM of the recorded predictions, and the held-out points."""
    found = recorded_accuracy(points)
    outliers = {(one.kernel == CALL, one.point) for one in found.outliers if one.place.startswith("HBM")}
    held_out = {(one.kernel == CALL, one.point) for one in found.comparisons if one.held_out}
    return [outliers, held_out]


@dataclass
class Job:
    """Prediction of one point in a process of its own."""

    point: Result
    process: BaseProcess
    path: Path
    started: float

    def stop(self) -> None:
        """End the process; its point has no prediction."""
        self.process.kill()
        self.process.join()

    def result(self, limit_s: float) -> tuple[Prediction, dict[str, object]] | None:
        """Return the prediction and its cost once the process ended; None before."""
        late = time.monotonic() - self.started > limit_s
        if self.process.is_alive() and not late:
            return None
        reason = f"no prediction after {limit_s:g} s" if late else f"its process ended with {self.process.exitcode}"
        if late:
            self.stop()
        self.process.join()
        if found := read_predictions(self.path):
            return found[0], json.loads(self.path.with_suffix(".cost").read_text(encoding="utf-8"))
        return Prediction(self.point.target, self.point.params, failed=reason), {}


def _child(point: Result, path: Path) -> None:
    predict = predict_call if is_steady(point) else predict_point
    found = predict(point, find_machine_or_file("H200"))
    used = resource.getrusage(resource.RUSAGE_SELF)
    cost = {"cpu_s": round(used.ru_utime + used.ru_stime, 2), "peak_bytes": used.ru_maxrss * 1024}
    path.with_suffix(".cost").write_text(json.dumps(cost), encoding="utf-8")
    write_predictions([found], path)


def _start(point: Result, number: int, folder: Path) -> Job:
    path = folder / f"{number}.jsonl"
    process = multiprocessing.get_context("fork").Process(target=_child, args=(point, path))
    process.start()
    return Job(point, process, path, time.monotonic())


def run(points: Sequence[Result], record: Record, processes: int, limit_s: float, stop_after_s: float) -> int:
    """Predict points in so many processes; return how many had no time.

    Those that run when the time is over are stopped and count as such.
    """
    waiting, running, end = list(enumerate(points)), list[Job](), time.monotonic() + stop_after_s
    with tempfile.TemporaryDirectory() as name:
        while (waiting or running) and time.monotonic() < end:
            while waiting and len(running) < processes:
                number, point = waiting.pop(0)
                running.append(_start(point, number, Path(name)))
            for job in list(running):
                if (done := job.result(limit_s)) is not None:
                    running.remove(job)
                    record.add(is_steady(job.point), *done)
                    print(point_key(job.point.target, job.point.params), done[1], done[0].failed, file=sys.stderr, flush=True)
            time.sleep(POLL_S)
        for job in running:
            job.stop()
    return len(waiting) + len(running)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when every point was tried, 1 where the time ended before."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="points with this in their name")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds a point may take")
    parser.add_argument(
        "--for", type=float, default=float("inf"), dest="stop_after_s", help="seconds until running points are stopped"
    )
    given = parser.parse_args(arguments)
    for module in MODULES:  # imported once, before the processes are forked
        importlib.import_module(module)
    record = Record(given.folder)
    text = json.dumps(software_environment(), indent=1, default=str)
    (given.folder / "environment.json").write_text(f"{text}\n", encoding="utf-8")
    chosen = [one for one in measured_points() if given.only in point_key(one.target, one.params)]
    points = record.missing(chosen, first_groups(chosen))
    print(f"{len(points)} points to predict in {given.processes} processes", file=sys.stderr)
    left = run(points, record, given.processes, given.limit, given.stop_after_s)
    print(f"{left} points had no time", file=sys.stderr)
    return int(left > 0)


if __name__ == "__main__":
    raise SystemExit(main())
