"""Make predictions of recorded points, and read and write them as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ioaware import strict_json
from ioaware._atomic_file import atomic_write
from ioaware.errors import DataError, IoawareError
from ioaware.machine import Machine
from ioaware.result import Launch, Result
from ioaware.result_file import read_jsonl
from ioaware.simulation.accuracy import PredictedLaunch, Prediction, point_key
from ioaware.simulation.simulation_result import LaunchSimulation

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Line = TypeVar("Line")

RECORDED = Path(__file__).resolve().parent.parent / "recorded"
PREDICTIONS = RECORDED / "simulated" / "predictions.jsonl"
"""Predictions made after the points were measured.

Those of the other files of its folder were committed before.
"""
STEADY = RECORDED / "simulated" / "steady.jsonl"
"""Predictions of calls in steady state."""
AGAIN = RECORDED / "simulated" / "again"
"""Predictions of the same points by a later model.

They were made after measuring.
"""
SYSTEMS = RECORDED / "systems" / "h200-systems.jsonl"
"""Points measured after the model and its numbers were fixed, and predicted later."""
STEADY_POINTS = ("steady/*.jsonl",)
OTHERS = ("heldout/*.jsonl", "order/h200-*order.jsonl", "headline/*.jsonl", "fusion/*.jsonl", "shared/*.jsonl")
MEASURED = ("*.jsonl", "foreign/*.jsonl", "systems/*.jsonl", *STEADY_POINTS, *OTHERS)
SCHEMA = 1
MAX_BYTES = 64 * 2**20


def measured_points(folder: Path = RECORDED, patterns: Sequence[str] = MEASURED) -> list[Result]:
    """Return every measured point with HBM bytes under a folder, file by file."""
    found: list[Result] = []
    for path in sorted(path for pattern in patterns for path in folder.glob(pattern)):
        found += [one for one in read_jsonl(path) if one.source == "measure" and one.hbm is not None]
    return found


def committed_before(path: Path = PREDICTIONS, steady: Path = STEADY) -> list[Prediction]:
    """Return the predictions that were committed before their points were measured."""
    orders = path.parent.parent.glob("order/predicted*.jsonl")
    others = sorted({*path.parent.glob("*.jsonl"), *orders} - {path, steady})
    return [one for other in others for one in read_predictions(other)]


def held_out_points(path: Path = SYSTEMS) -> frozenset[str]:
    """Return the names of the points that no choice of the model could see."""
    later = [*read_jsonl(path), *committed_before()]
    return frozenset(point_key(one.target, one.params) for one in later)


def predict_point(measured: Result, machine: Machine) -> Prediction:
    """Simulate a recorded point as it was measured.

    The L2 is empty before each launch.
    """
    from ioaware.simulation.accuracy_record.measured_configuration import compiled_otherwise, measured_tuning
    from ioaware.simulation.simulate import simulate
    from ioaware.targets.target import load_target

    try:
        target = load_target(measured.target)
        params = target.resolve(measured.params)
        done = simulate(target, params, machine=machine, autotune=measured.tuning, cold=True)
        if compiled_otherwise(done, measured):
            done = simulate(target, params, machine=machine, autotune=measured_tuning(measured, target, params), cold=True)
    except (IoawareError, ImportError, FileNotFoundError) as error:
        return Prediction(measured.target, measured.params, failed=str(error).splitlines()[0])
    pairs = zip(done.launches, done.simulations, strict=True)
    capacity = machine.level("l2").capacity_bytes
    launches = tuple(_launch(launch, how, capacity) for launch, how in pairs if how is not None)
    return Prediction(measured.target, measured.params, launches)


def _launch(launch: Launch, how: LaunchSimulation, capacity_bytes: int) -> PredictedLaunch:
    requested, hbm = launch.requested, launch.hbm
    reads, writes = (hbm.read_bytes or 0, hbm.write_bytes or 0) if hbm else (0, 0)
    sectors = requested and requested.read_sector_bytes, requested and requested.write_sector_bytes
    elements = requested and requested.read_bytes, requested and requested.write_bytes
    added = (requested.atomic_bytes or 0) if requested else 0
    stored = sectors[1] if sectors[1] is not None else elements[1]
    written = None if stored is None else stored + added
    return PredictedLaunch(
        launch.kernel,
        sectors[0] if sectors[0] is not None else elements[0],
        written,
        reads,
        writes,
        how.read_range,
        how.write_range,
        fills_l2=reads + writes + how.left_dirty_bytes > capacity_bytes,
        l1_served_bytes=how.l1.served_bytes if how.l1 else None,
        most_requested_write_bytes=None if written is None else written + how.unknown_write_bytes,
        least_requested_write_bytes=None if written is None else written - how.unmerged_bytes,
    )


def predict_missing(
    points: Iterable[Result],
    machine: Machine,
    path: Path,
    on_start: Callable[[str], None],
    predict: Callable[[Result, Machine], Prediction] = predict_point,
) -> list[Prediction]:
    """Predict each point that a file lacks, and return all predictions of the file.

    Each prediction is written as soon as it is made. `on_start` is called with the name of each point before its prediction.
    """
    found = read_predictions(path)
    known = {point_key(one.target, one.params) for one in found}
    for point in points:
        key = point_key(point.target, point.params)
        if key in known:
            continue
        on_start(key)
        found.append(predict(point, machine))
        known.add(key)
        write_predictions(found, path)
    return found


def write_predictions(predictions: Iterable[Prediction], path: Path) -> None:
    """Write one JSON line per prediction."""
    write_lines(predictions, path)


def read_predictions(path: Path = PREDICTIONS) -> list[Prediction]:
    """Return the predictions of a file, none where it does not exist.

    Raises `DataError` for a damaged file.
    """
    return read_lines(path, Prediction)


def write_lines(found: Iterable[DataclassInstance], path: Path) -> None:
    """Write one JSON line per dataclass."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as place:
        lines = (json.dumps({"schema": SCHEMA, **asdict(one)}, separators=(",", ":")) for one in found)
        place.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_lines(path: Path, kind: type[Line]) -> list[Line]:
    """Return the dataclasses of a file's lines, none where it does not exist.

    Raises `DataError` for a damaged file.
    """
    return (
        [_line(line, f"{path}:{number}", kind) for number, line in strict_json.read_lines(path, MAX_BYTES)]
        if strict_json.is_there(path)
        else []
    )


def _line(line: bytes, where: str, kind: type[Line]) -> Line:
    try:
        document = strict_json.loads(line)
        data = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
        schema = data.pop("schema", None)
        if type(schema) is not int or schema != SCHEMA:
            raise ValueError(f"not schema {SCHEMA}")
        strict_json.refuse_negative(data.get("launches"))
        return strict_json.convert(data, kind)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where}: not a prediction ({str(error)[:200]})", "Make it again: ioaware accuracy --predict."
        ) from error
