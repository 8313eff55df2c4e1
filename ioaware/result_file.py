"""Read and write records: one `Result` per line of JSON, validated when read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from ioaware._atomic_file import atomic_write
from ioaware.errors import DataError, MachineError
from ioaware.result import SCHEMA, Result

MAX_BYTES = 64 * 2**20


def encode(result: Result) -> str:
    """Return one line of strict JSON. Raises `ValueError` for a NaN or an infinity."""
    return json.dumps(result.to_dict(), allow_nan=False, separators=(",", ":"))


def decode(line: str | bytes, where: str = "record") -> Result:
    """Parse a `Result` from its JSON. Raises `DataError` for anything that `encode` would not write."""
    try:
        import msgspec  # only the file boundary needs it: measuring must start on machines without it
    except ModuleNotFoundError as error:
        raise MachineError("msgspec is not installed, and reading records needs it", "pip install msgspec") from error

    try:
        decoded: object = msgspec.json.decode(line)
        if not isinstance(decoded, dict):
            raise ValueError("not a JSON object")
        data = cast("dict[str, Any]", decoded)
        schema = data.pop("schema", None)
        if type(schema) is not int or schema != SCHEMA:
            raise ValueError(f"schema {schema!r}, this version reads schema {SCHEMA}")
        result = msgspec.convert(data, Result)
        unknown = _unknown_keys(data, result.to_dict())
        if unknown:
            raise ValueError(f"unknown field {', '.join(sorted(unknown))}")
        return result
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise DataError(
            f"{where}: not an ioaware record ({error})",
            "Measure it again; records are written by ioaware and never edited by hand.",
        ) from error


def _unknown_keys(data: dict[str, Any], known: dict[str, Any]) -> set[str]:
    """Return the top-level names that did not survive the round trip and are not null."""
    return {key for key, value in data.items() if value is not None and value != [] and key not in known}


def read_jsonl(path: Path) -> Iterator[Result]:
    """Yield every record of a JSONL file. Raises `DataError` with the file and line."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise DataError(f"{path}: {size} bytes, more than the {MAX_BYTES} this reader accepts")
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})", "Check the path and its permissions.") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield decode(line, where=f"{path}:{number}")


def write_jsonl(path: Path, results: Iterable[Result]) -> None:
    """Write a JSONL file atomically. Raises `DataError` when it cannot be written."""
    try:
        with atomic_write(path) as place, place.open("w", encoding="utf-8") as file:
            for result in results:
                file.write(encode(result) + "\n")
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})", "Check the path and the space left.") from error
