"""Records of the race: one JSON object per line, appended when a point is done, validated on reading."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from ioaware.bench.attention_points import Point
from ioaware.errors import DataError, UsageError

SCHEMA = 1
MAX_BYTES = 64 * 2**20
Status = Literal["ok", "wrong", "failed", "unsupported", "absent"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One back end at one point.

    `ran` is the kernel it chose; times are nanoseconds per call, one per round; `host_us` the host time of an uncaptured call;
    `reason` says why there is no time, or no graph.
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
        """Return the record of a `to_dict`. Raises ValueError, TypeError or KeyError for anything else."""
        fields = dict(data)
        if fields.pop("schema") != SCHEMA or fields.pop("bench") != "attention":
            raise ValueError(f"not schema {SCHEMA} of attention's bench")
        entries = tuple(_entry(entry) for entry in fields.pop("entries"))
        ceilings = {name: _numbers(fields.pop(name)) for name in ("matmul_flops_per_s", "copy_bytes_per_s")}
        return Record(point=Point.of(fields.pop("point")), entries=entries, **ceilings, **fields)


def _entry(data: dict[str, Any]) -> Entry:
    """Return a validated entry."""
    fields: dict[str, Any] = {**data, "times_ns": _numbers(data.get("times_ns", ()))}
    entry = Entry(**fields)
    if entry.status not in get_args(Status) or not isinstance(cast("object", entry.name), str):
        raise ValueError("no such status")
    if (entry.status == "ok") != bool(entry.times_ns):
        raise ValueError("times belong to entries that are ok, and to no others")
    if entry.host_us is not None:
        _numbers([entry.host_us])
    if entry.relative_error is not None and not entry.relative_error >= 0:
        raise ValueError("no relative error is below 0")
    return entry


def _numbers(values: Sequence[object]) -> tuple[float, ...]:
    """Return positive finite numbers. Raises ValueError for others."""
    for value in values:
        if type(value) not in (int, float) or not math.isfinite(cast("float", value)) or cast("float", value) <= 0:
            raise ValueError(f"{value!r} is no positive number")
    return tuple(float(cast("float", value)) for value in values)


def append(path: Path, record: Record) -> None:
    """Append a line, durable on return. Raises `DataError` when it cannot be written."""
    line = json.dumps(record.to_dict(), allow_nan=False, separators=(",", ":")) + "\n"
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            if path.is_file():
                os.fsync(file.fileno())
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})", "Check the path and the space left.") from error


def read(path: Path) -> list[Record]:
    """Return every record of a file. Raises `DataError` naming the first invalid line."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})", "Check the path and its permissions.") from error
    if len(content) > MAX_BYTES:
        raise DataError(f"{path}: more than the {MAX_BYTES} bytes this reader accepts")
    records: list[Record] = []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            decoded: object = json.loads(line)
            if not isinstance(decoded, dict):
                raise ValueError("not a JSON object")
            records.append(Record.of(cast("dict[str, Any]", decoded)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DataError(
                f"{path}:{number}: not a record of the bench ({type(error).__name__}: {error})",
                "Name another file, or run the bench again; its records are never edited by hand.",
            ) from error
    return records


def resume(path: Path, environment: Mapping[str, Any]) -> list[Record]:
    """Return the records that an earlier run left in a file that this one continues.

    A line cut short by a kill is removed first. Raises `UsageError` for records of another machine, version or commit.
    """
    if not path.is_file():
        return []
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)
    records = read(path)
    for record in records:
        for name in sorted({*record.environment, *environment}):
            before, now = record.environment.get(name), environment.get(name)
            if before != now:
                raise UsageError(
                    f"{path} has points of another run: {name} was {before}, now it is {now}", "Name another file with -o."
                )
    return records
