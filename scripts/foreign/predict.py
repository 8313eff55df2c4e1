"""Derive a study's points and predict their HBM bytes, before they are measured.

    PYTHONPATH=. FOREIGN_LIGER=PATH ... python scripts/foreign/predict.py scripts/foreign/h200-wide.toml -o FOLDER

Each point is derived and simulated in a forked process with a time limit. Points that FOLDER has already are not predicted
again, so that an interrupted command continues. `--share 0/2` takes every second point, for two commands with a folder each.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ioaware.machine import find_machine_or_file
from ioaware.result import Result
from ioaware.result_file import read_jsonl, write_jsonl
from ioaware.simulation.accuracy import Prediction, point_key
from ioaware.simulation.predictions import predict_point, read_predictions, write_predictions
from ioaware.sweep.points import Point
from ioaware.sweep.study import find_study

sys.path.insert(0, str(Path(__file__).parent))
from hold import derive_point

LIMIT_S = 120
PREDICTED, DERIVED = "predicted.jsonl", "derived.jsonl"
MODULES = ("ioaware.simulation.simulate", "ioaware.derivation.derive", "ioaware.targets.target")


def _child(point: Point, folder: Path) -> None:
    """Derive and predict in a new process; what is done when the time is up holds."""
    asked = Result("measure", point.target, point.params)
    if (derived := derive_point(asked)) is not None:
        write_jsonl(folder / DERIVED, [derived])
    write_predictions([predict_point(asked, find_machine_or_file("H200"))], folder / PREDICTED)


def predicted(point: Point, limit_s: float) -> tuple[Prediction, list[Result]]:
    """Return the prediction of a point and what is derived of it.

    After the limit, or a crash, the prediction is one that failed.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process = multiprocessing.get_context("fork").Process(target=_child, args=(point, folder))
        process.start()
        process.join(limit_s)
        reason = f"the process that predicts ended with {process.exitcode}"
        if process.is_alive():
            process.kill()
            process.join()
            reason = f"no prediction after {limit_s:g} s"
        derived = list(read_jsonl(folder / DERIVED)) if (folder / DERIVED).exists() else []
        found = read_predictions(folder / PREDICTED)
        return found[0] if found else Prediction(point.target, point.params, failed=reason), derived


def _mixed(points: Sequence[Point]) -> list[Point]:
    """Return the points in an order that mixes libraries, the same each time.

    Points that there is no time for are then of no one kind.
    """
    return sorted(points, key=lambda point: hashlib.sha256(point_key(point.target, point.params).encode()).digest())


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when every point has a prediction, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", help="a study's name or TOML file")
    parser.add_argument("-o", "--output", type=Path, required=True, help=f"the folder of {PREDICTED} and {DERIVED}")
    parser.add_argument("--share", default="0/1", help="N/M: every M-th point, from the N-th on")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds a point may take")
    given = parser.parse_args(arguments)
    first, step = (int(part) for part in given.share.split("/"))
    for module in MODULES:  # imported once, before the processes are forked
        importlib.import_module(module)
    given.output.mkdir(parents=True, exist_ok=True)
    found = read_predictions(given.output / PREDICTED)
    derived = list(read_jsonl(given.output / DERIVED)) if (given.output / DERIVED).exists() else []
    known = {point_key(one.target, one.params) for one in found}
    for point in _mixed(find_study(given.study).points)[first::step]:
        if point_key(point.target, point.params) in known:
            continue
        start = time.monotonic()
        prediction, its = predicted(point, given.limit)
        found, derived = [*found, prediction], [*derived, *its]
        write_predictions(found, given.output / PREDICTED)
        write_jsonl(given.output / DERIVED, derived)
        print(f"{point.label}: {time.monotonic() - start:.1f} s {prediction.failed}", file=sys.stderr, flush=True)
    return int(any(one.failed for one in found))


if __name__ == "__main__":
    raise SystemExit(main())
