"""Read and write records of the race, one JSON object per line.

An object is appended when a point is done, and validated on reading.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from ioaware import strict_json
from ioaware._atomic_file import cannot_write, check_writable
from ioaware.bench.attention_points import Point
from ioaware.bench.bench_records import MAX_BYTES, check_same_run, parse_line, positive_numbers, read_records
from ioaware.errors import DataError

SCHEMA = 1
WHAT = "the bench"
Status = Literal["ok", "wrong", "failed", "unsupported", "absent"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One back end at one point.

    `ran` is the kernel it chose; times are nanoseconds per call, one per round.

    `host_us` is the host time of an uncaptured call. `reason` is why there is no time, or no graph.
    """

    name: str
    status: Status
    ran: str = ""
    reason: str = ""
    times_ns: tuple[float, ...] = ()
    host_us: float | None = None
    graph: bool = False
    relative_error: float | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One point: its entries, the two ceilings, NVML telemetry, and the environment."""

    point: Point
    entries: tuple[Entry, ...]
    matmul_flops_per_s: tuple[float, ...] = ()
    copy_bytes_per_s: tuple[float, ...] = ()
    telemetry: Mapping[str, Any] = field(default_factory=dict[str, Any])
    environment: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def entry(self, name: str) -> Entry | None:
        """Return the entry of that back end."""
        return next((entry for entry in self.entries if entry.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as in the file."""
        data = asdict(self)
        entries = [
            {name: value for name, value in asdict(entry).items() if value not in (None, "", ())} for entry in self.entries
        ]
        return {"schema": SCHEMA, "bench": "attention", **data, "point": self.point.to_dict(), "entries": entries}

    @staticmethod
    def of(data: dict[str, Any]) -> Record:
        """Return the record of a `to_dict`.

        Raises ValueError, TypeError or KeyError for anything else.
        """
        fields = dict(data)
        schema, bench = fields.pop("schema"), fields.pop("bench")
        if type(schema) is not int or schema != SCHEMA or bench != "attention":
            raise ValueError(f"not schema {SCHEMA} of attention's bench")
        entries = tuple(_entry(entry) for entry in _checked(fields.pop("entries"), list))
        if len({entry.name for entry in entries}) < len(entries):
            raise ValueError("a back end is repeated")
        if len({len(entry.times_ns) for entry in entries if entry.times_ns}) > 1:
            raise ValueError("every back end that is ok has one time a round")
        ceilings = {name: positive_numbers(fields.pop(name)) for name in ("matmul_flops_per_s", "copy_bytes_per_s")}
        environment, telemetry = _checked(fields.pop("environment"), dict), _telemetry(fields.pop("telemetry"))
        point = Point.of(fields.pop("point"))
        return Record(point, entries, telemetry=telemetry, environment=environment, **ceilings, **fields)


DOUBTS = ("throttled", "unstable")
"""Telemetry that is a list of reasons."""
TYPES: Mapping[str, type] = {"name": str, "status": str, "ran": str, "reason": str, "graph": bool}


def _entry(data: dict[str, Any]) -> Entry:
    """Return a validated entry."""
    for name, kind in TYPES.items():
        if name in data:
            _checked(data[name], kind)
    fields: dict[str, Any] = {**data, "times_ns": positive_numbers(data.get("times_ns", ()))}
    entry = Entry(**fields)
    if entry.status not in get_args(Status):
        raise ValueError("no such status")
    if (entry.status == "ok") != bool(entry.times_ns):
        raise ValueError("times belong to entries that are ok, and to no others")
    if entry.host_us is not None:
        positive_numbers([entry.host_us])
    if entry.relative_error is not None and (
        type(entry.relative_error) not in (int, float) or not 0 <= entry.relative_error < math.inf
    ):
        raise ValueError("a relative error is a number from 0")
    return entry


def _telemetry(data: Any) -> dict[str, Any]:
    """Return validated telemetry.

    It has the least, median and greatest of each reading, and reasons to distrust the times.
    """
    for name, value in _checked(data, dict).items():
        if name in DOUBTS:
            for reason in _checked(value, list):
                _checked(reason, str)
        elif _checked(value, dict).keys() != {"min", "median", "max"}:
            raise ValueError(f"telemetry of {name[:40]!r} is min, median and max")
        else:
            positive_numbers(list(value.values()))
    return data


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{str(value)[:40]!r} is no {kind.__name__}")
    return value


def read(path: Path) -> list[Record]:
    """Return every record of a file. Raises `DataError` naming the first invalid line."""
    return read_records(path, Record.of, WHAT)


def resume(path: Path, environment: Mapping[str, Any]) -> list[Record]:
    """Return the records of an earlier run in a file that this run adds to.

    A last line that a kill cut short is removed, if all lines before it are records of this bench. Raises `DataError` for a
    file of anything else, `UsageError` for records of another machine, version or commit.
    """
    check_writable(path)
    if not path.is_file():
        return []
    lines = list(strict_json.read_lines(path, MAX_BYTES))
    cut = lines.pop()[1] if lines and not _ends_a_line(path) else b""
    records = [parse_line(line, f"{path}:{number}", Record.of, WHAT) for number, line in lines]
    check_same_run(path, records, environment)
    if cut:
        _take_off(path, cut)
    return records


START = strict_json.dumps({"schema": SCHEMA, "bench": "attention"})[:-1].encode()
"""Beginning of every line."""


def _take_off(path: Path, cut: bytes) -> None:
    if not cut.startswith(START) and not START.startswith(cut):
        raise DataError(f"{path}: its last line is not the beginning of a record of the bench", "Name another file with -o.")
    try:
        os.truncate(path, path.stat().st_size - len(cut))
    except OSError as error:
        raise cannot_write(path, error) from error


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"
