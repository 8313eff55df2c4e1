"""Gather the evidence of claims.

There is one process per required run, and each result comes with its prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ioaware import strict_json
from ioaware.analysis.theory.claims.evidence import CountedExchange, Evidence, MeasuredError, Need, Observation
from ioaware.bench.multi_gpu.counted_exchanges import counted_exchanges
from ioaware.bench.multi_gpu.link_record import read_exchanges
from ioaware.bench.race_record import Record, read
from ioaware.bench.training.training_record import TrainingRecord, read_training
from ioaware.cases import CASES, find_case
from ioaware.errors import DataError
from ioaware.prediction import predict
from ioaware.result import Result
from ioaware.result_file import decode, read_jsonl
from ioaware.sweep.points import Point, make_point
from ioaware.sweep.pool import run_points

Progress = Callable[[int, int, str], None]
"""Arguments: runs done, runs in total, label of the last run."""

TIMEOUT_S = 120.0
MAX_ERRORS_BYTES = 2**24
_FOLDER = Path(str(files("ioaware"))) / "recorded"


def gather(
    needs: Sequence[Need],
    *,
    measurements: Iterable[Result] | None = None,
    progress: Progress | None = None,
    workers: int | None = None,
    known: Mapping[str, Result] = MappingProxyType({}),
) -> Evidence:
    """Return the result of every need, and the measurements.

    The default is those shipped with the package.

    `known` has results of this session by the key of their point, which are not run again. A run that crashes or hangs
    becomes a result of status "failed", and no verdict uses it. Raises `DataError` for a corrupt record.
    """
    results = _run(points_of(needs), progress, workers, known)
    seen = [*recorded_measurements(), *recorded_systems()] if measurements is None else measurements
    return Evidence(
        {need: observe(result) for need, result in zip(needs, results, strict=True)},
        tuple(observe(result) for result in seen if result.source == "measure" and result.target in CASES),
        recorded_errors(),
        recorded_shared(),
        recorded_exchanges(),
    )


def points_of(needs: Sequence[Need]) -> list[Point]:
    """Return the point of each need, in order."""
    return [make_point(need.source, need.target, dict(need.params)) for need in needs]


def observe(result: Result) -> Observation:
    """Return a result with the prediction for its case and parameters."""
    predicted = predict(result.target, **dict(result.params))  # pyright: ignore[reportArgumentType]  params name no machine
    return Observation(result, predicted, find_case(result.target).values(result.params))


def recorded() -> list[Result]:
    """Return every record of ioaware/recorded/*.jsonl.

    They are measurements, and derivations of the same points.
    """
    return [result for path in sorted(_FOLDER.glob("*.jsonl")) for result in read_jsonl(path)]


def recorded_systems() -> list[Result]:
    """Return every record of ioaware/recorded/systems/*.jsonl.

    They are measurements beyond the three forward papers.
    """
    return _recorded("systems")


def recorded_errors() -> list[MeasuredError]:
    """Return the errors of ioaware/recorded/numerics/*.jsonl.

    Those of an attention that did not run are left out.

    Raises `DataError` naming the first invalid line.
    """
    paths = sorted((_FOLDER / "numerics").glob("*.jsonl"))
    lines = ((line, f"{path}:{number}") for path in paths for number, line in strict_json.read_lines(path, MAX_ERRORS_BYTES))
    return [error for line, where in lines if (error := _error(line, where)) is not None]


def _error(line: bytes, where: str) -> MeasuredError | None:
    import msgspec

    try:
        data = msgspec.convert(strict_json.loads(line), dict[str, Any])
        return msgspec.convert(data, MeasuredError) if data["status"] == "ok" else None
    except (msgspec.MsgspecError, ValueError, KeyError, RecursionError) as error:
        raise DataError(f"{where}: not a record of an error ({str(error)[:200]})", "Measure it again.") from error


def recorded_exchanges() -> list[CountedExchange]:
    """Return the counters of NVLink of ioaware/recorded/several_gpus/*.jsonl.

    Raises `DataError` naming the first invalid line.
    """
    paths = sorted((_FOLDER / "several_gpus").glob("*.jsonl"))
    return [one for path in paths for one in counted_exchanges(read_exchanges(path), "recorded")]


def recorded_headline() -> list[Result]:
    """Return the measurements at the shape of the FlashAttention paper's table.

    They are of ioaware/recorded/headline/*.jsonl.
    """
    return _recorded("headline")


def recorded_fusion() -> list[Result]:
    """Return the measurements of kernels that `ioaware fuse` writes.

    They are of ioaware/recorded/fusion/*.jsonl.
    """
    return _recorded("fusion")


def recorded_shared() -> list[Result]:
    """Return the counters of shared memory of the softmax family.

    They are of ioaware/recorded/shared/*.jsonl.
    """
    return _recorded("shared")


def recorded_training() -> list[TrainingRecord]:
    """Return the records of `ioaware bench training`.

    They are of ioaware/recorded/bench/training/*.jsonl.
    """
    folder = _FOLDER / "bench" / "training"
    return [record for path in sorted(folder.glob("*.jsonl")) for record in read_training(path)]


def _recorded(folder: str) -> list[Result]:
    return [result for path in sorted((_FOLDER / folder).glob("*.jsonl")) for result in read_jsonl(path)]


def recorded_race(pattern: str = "*.jsonl") -> list[Record]:
    """Return every record of ioaware/recorded/bench/*.jsonl, or of other files there.

    The records are speeds, not bytes.
    """
    return [record for path in sorted((_FOLDER / "bench").glob(pattern)) for record in read(path)]


def recorded_measurements() -> list[Result]:
    """Return the measurements among the records."""
    return [result for result in recorded() if result.source == "measure"]


def _run(points: Sequence[Point], progress: Progress | None, workers: int | None, known: Mapping[str, Result]) -> list[Result]:
    """Return one result per point, in order."""
    results = {point.key: known[point.key] for point in points if point.key in known}
    distinct = {point.key: point for point in points if point.key not in known}
    for answer in run_points(list(distinct.values()), workers=workers, timeout_s=TIMEOUT_S):
        results[answer.point.key] = decode(answer.record, answer.point.label)
        if progress is not None:
            progress(len(results), len({point.key for point in points}), answer.point.label)
    return [results[point.key] for point in points]
