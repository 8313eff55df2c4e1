"""Read and write records: one `Result` per line of JSON, validated when read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from ioaware import strict_json
from ioaware._atomic_file import atomic_write
from ioaware.errors import DataError
from ioaware.result import SCHEMA, Result

MAX_BYTES = 64 * 2**20


def encode(result: Result) -> str:
    """Return one line of strict JSON.

    Raises `ValueError` for a number that `decode` would refuse.
    """
    return strict_json.dumps(result.to_dict())


def decode(line: str | bytes, where: str = "record") -> Result:
    """Parse a `Result` from its JSON.

    Raises `DataError` for anything that `encode` would not write.
    """
    try:
        document = strict_json.loads_record(line)
        if not isinstance(document, dict):
            raise ValueError("not a JSON object")
        data = cast("dict[str, Any]", document)
        schema = data.pop("schema", None)
        if type(schema) is not int or schema != SCHEMA:
            raise ValueError(f"schema {str(schema)[:40]!r}, this version reads schema {SCHEMA}")
        return strict_json.convert(data, Result)
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError(
            f"{where}: not an ioaware record ({str(error)[:300]})",
            "Measure it again; records are written by ioaware and never edited by hand.",
        ) from error


def read_jsonl(path: Path) -> Iterator[Result]:
    """Yield every record of a JSONL file. Raises `DataError` with the file and line."""
    for number, line in strict_json.read_lines(path, MAX_BYTES):
        yield decode(line, where=f"{path}:{number}")


def write_jsonl(path: Path, results: Iterable[Result]) -> None:
    """Write a JSONL file atomically. Raises `WriteError` when it cannot be written."""
    with atomic_write(path) as place, place.open("w", encoding="utf-8") as file:
        for result in results:
            file.write(encode(result) + "\n")
