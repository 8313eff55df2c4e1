"""Read and append the records of a bench, one JSON object per line.

A line is appended when a point is done, and validated on reading.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from ioaware import strict_json
from ioaware._atomic_file import append_line, check_writable
from ioaware.errors import DataError, UsageError

MAX_BYTES = 64 * 2**20
R = TypeVar("R")


class BenchRecord(Protocol):
    """What the record of every bench has: its run's environment, and its line."""

    @property
    def environment(self) -> Mapping[str, Any]:
        """Machine, versions and commit."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return the record as in the file."""
        ...


def append_record(path: Path, record: BenchRecord) -> None:
    """Append a line, durable on return. Raises `WriteError` when it cannot be written."""
    append_line(path, strict_json.dumps(record.to_dict()))


def read_records(path: Path, parse: Callable[[dict[str, Any]], R], what: str) -> list[R]:
    """Return every record of a file.

    `parse` makes one from its dict. It raises ValueError, TypeError, KeyError or AttributeError for anything else.

    Raises `DataError` naming the first line that is not `what`.
    """
    lines = strict_json.read_lines(path, MAX_BYTES)
    return [parse_line(line, f"{path}:{number}", parse, what) for number, line in lines]


def read_known(path: Path, read: Callable[[Path], list[R]]) -> list[R]:
    """Return the records of an earlier run in a file that this run adds to.

    There are none where there is no file yet. Raises `WriteError` for a file that cannot be written, `DataError` for one with
    anything else in it, or without an end of its last line.
    """
    check_writable(path)
    if not path.is_file() or not path.stat().st_size:
        return []
    records = read(path)
    if not path.read_bytes().endswith(b"\n"):
        raise DataError(f"{path}: its last line has no end", "Name another file with -o.")
    return records


def parse_line(line: bytes, where: str, parse: Callable[[dict[str, Any]], R], what: str) -> R:
    """Return the record of a line. Raises `DataError` with `where` for any other."""
    try:
        data: Any = strict_json.loads(line)
        if type(data) is not dict:
            raise ValueError(f"{str(data)[:40]!r} is no dict")
        return parse(data)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{where}: not a record of {what} ({type(error).__name__}: {str(error)[:200]})",
            "Name another file, or run the bench again; do not edit its records.",
        ) from error


def as_record(data: dict[str, Any], kind: type[R]) -> R:
    """Return the dict as a dataclass, every field validated by msgspec.

    Raises ValueError for another shape, for a field that the dataclass has not, and for a number below 0. Raises
    `MachineError` without msgspec.
    """
    record = strict_json.convert(data, kind)
    strict_json.refuse_negative(data)  # a bench counts and times
    return record


def positive_numbers(values: Sequence[object]) -> tuple[float, ...]:
    """Return positive finite numbers. Raises ValueError for others."""
    for value in values:
        if type(value) not in (int, float) or not math.isfinite(cast("float", value)) or cast("float", value) <= 0:
            raise ValueError(f"{value!r} is not a positive number")
    return tuple(float(cast("float", value)) for value in values)


def check_same_run(path: Path | None, records: Sequence[BenchRecord], environment: Mapping[str, Any]) -> None:
    """Raise `UsageError` for records of another machine, version or commit."""
    for record in records:
        for name in sorted({*record.environment, *environment}):
            before, now = record.environment.get(name), environment.get(name)
            if before != now:
                raise UsageError(
                    f"{path} has points of another run: {name} was {before}, now it is {now}", "Name another file with -o."
                )
