"""Read measured results from the JSON of `measure` or of pytest-benchmark.

Of a run of pytest-benchmark those benchmarks count that the fixture `gpu_benchmark` timed; others have no GPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from ioaware.errors import DataError
from ioaware.measurement.timing import summarize
from ioaware.result import Result, Traffic
from ioaware.result_file import decode
from ioaware.strict_json import loads, read_lines

LARGEST_BYTES = 64 * 2**20
ENVIRONMENT = ("gpu", "driver", "cuda", "torch", "triton", "python", "ioaware", "commit")


def json_results(path: Path) -> list[Result]:
    """Return the results of a file; benchmarks are named by their tests.

    Raises `DataError` for a file that neither wrote, and for benchmarks without their rounds.
    """
    content = b"\n".join(line for _, line in read_lines(path, LARGEST_BYTES))
    try:
        document = _table(loads(content))
        if "benchmarks" not in document:
            return [decode(content, str(path))]
        benchmarks = document["benchmarks"]
        if not isinstance(benchmarks, list):
            raise TypeError("benchmarks is no list")
        found = [_table(one) for one in cast("list[object]", benchmarks)]
        return [_result(one) for one in found if "gpu" in _table(one["extra_info"])]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path}: no measured results ({str(error)[:200]})",
            "Write them: ioaware measure --json -o FILE, or pytest --benchmark-json FILE.",
        ) from error


def _result(benchmark: dict[str, Any]) -> Result:
    info = _table(benchmark["extra_info"])
    name = benchmark["fullname"]
    if not isinstance(name, str) or not name:
        raise TypeError(f"fullname is {str(name)[:60]!r}")
    clock = info.get("sm_clock_mhz")
    return Result(
        "measure",
        name,
        requested=_traffic(info, "requested"),
        hbm=_traffic(info, "hbm"),
        timing=summarize(_rounds_ns(_table(benchmark["stats"])["data"])),
        telemetry=None if clock is None else {"before": {"sm_clock_mhz": _table(clock)["median"]}},
        environment={key: info[key] for key in ENVIRONMENT if info.get(key) is not None},
    )


def _rounds_ns(seconds: object) -> list[float]:
    if not isinstance(seconds, list) or len(cast("list[object]", seconds)) < 2:
        raise ValueError("fewer than two rounds")
    rounds = cast("list[object]", seconds)
    if any(type(one) not in (int, float) or not cast("float", one) > 0 for one in rounds):
        raise ValueError("a round is no positive number of seconds")
    return [cast("float", one) * 1e9 for one in rounds]


def _traffic(info: dict[str, Any], place: str) -> Traffic | None:
    sides = {f"{side}_bytes": info.get(f"{place}_{side}_bytes") for side in ("read", "write", "atomic")}
    return None if all(count is None for count in sides.values()) else Traffic(**sides)


def _table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{str(value)[:40]!r} is no object")
    return cast("dict[str, Any]", value)
