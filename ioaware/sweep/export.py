"""Export records of a store.

JSONL is unchanged; CSV and Parquet are flat, with JSON paths as columns.
"""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TextIO

from ioaware._atomic_file import atomic_write
from ioaware.errors import UsageError
from ioaware.measurement.time_bounds import with_bounds, with_known_flops
from ioaware.params import STANDARD_PARAMS
from ioaware.result import Result
from ioaware.result_file import encode

FORMATS = ("csv", "jsonl", "parquet")
Cell = str | int | float | bool | None

_FIELDS = tuple(field.name for field in fields(Result))
_PARAMS = tuple(STANDARD_PARAMS)
_FORMULA_STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a formula, and their full-width forms."""


def export(results: Iterable[Result], path: Path, format: str | None = None) -> None:
    """Write the records in a fixed order as `format`, atomically.

    The default is the format of the path's suffix.

    Times have their bounds beside them, where the GPU is known, with the FLOPs of derivations among the records. The flat
    formats leave out launches. Raises `UsageError` for an unknown format or a missing library, `WriteError` when the file
    cannot be written.
    """
    chosen = format or path.suffix.removeprefix(".")
    if chosen not in FORMATS:
        raise UsageError(f"{chosen or path}: no such export format", f"Formats: {', '.join(FORMATS)}; or end the path in one.")
    ordered = sorted(map(with_bounds, with_known_flops(results)), key=_order)
    parquet = _import_parquet() if chosen == "parquet" else None
    with atomic_write(path) as place:
        if parquet is not None:
            _write_parquet(parquet, ordered, place)
        else:
            with place.open("w", encoding="utf-8", newline="") as file:
                (write_csv if chosen == "csv" else _write_jsonl)(ordered, file)


def write_csv(results: Iterable[Result], file: TextIO) -> None:
    """Write comma-separated rows with a header.

    An apostrophe precedes text that a spreadsheet would run as a formula.
    """
    columns, rows = table(results)
    writer = csv.writer(_LineFeeds(file), lineterminator="\r\n")
    writer.writerow([_guard(name) for name in columns])
    writer.writerows([[_guard(cell) for cell in row] for row in rows])


class _LineFeeds:
    """End rows with a line feed.

    Python before 3.13 quotes only cells with a character of its line terminator.
    """

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def write(self, row: str) -> int:
        return self.file.write(row.removesuffix("\r\n") + "\n")


def table(results: Iterable[Result]) -> tuple[list[str], list[list[Cell]]]:
    """Return columns and rows: every JSON path of any record except launches.

    Lists of text become lines.
    """
    flat = [dict(_flatten(result.to_dict())) for result in results]
    columns = sorted({name for row in flat for name in row}, key=_column_order)
    return columns, [[row.get(name) for name in columns] for row in flat]


def _flatten(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Cell]]:
    cells: list[tuple[str, Cell]] = []
    for name, item in value.items():
        path = prefix + name
        if path in ("schema", "launches"):
            continue
        if isinstance(item, Mapping):
            cells += _flatten(item, f"{path}.")  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(item, list):
            cells.append((path, "\n".join(one if isinstance(one, str) else json.dumps(one) for one in item)))  # pyright: ignore[reportUnknownVariableType]
        else:
            cells.append((path, item))
    return cells


def _column_order(name: str) -> tuple[int, int, str]:
    """Order columns.

    Fields go as in the record, standard parameters in their order, the rest by name.
    """
    field, _, rest = name.partition(".")
    known = _PARAMS.index(rest) if field == "params" and rest in _PARAMS else len(_PARAMS)
    return _FIELDS.index(field), known, rest


def _order(result: Result) -> tuple[str, str, str, str]:
    return result.source, result.target, json.dumps(dict(result.params), sort_keys=True), encode(result)


def _guard(cell: Cell) -> Cell:
    """Put an apostrophe before text that a spreadsheet runs as a formula.

    It is looked for also after blanks, line breaks and characters that are not shown.
    """
    if not isinstance(cell, str):
        return cell
    first = cell[:1]
    return "'" + cell if first.isspace() or not first.isprintable() or cell.startswith(_FORMULA_STARTS) else cell


def _write_jsonl(results: Iterable[Result], file: TextIO) -> None:
    for result in results:
        file.write(encode(result) + "\n")


def _import_parquet() -> Any:
    """Import pyarrow, which is untyped and optional."""
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError:
        raise UsageError(
            "Parquet needs pyarrow", "Install it: pip install 'ioaware[parquet]'. CSV and JSONL need nothing."
        ) from None


def _write_parquet(pyarrow: Any, results: Sequence[Result], path: Path) -> None:
    columns, rows = table(results)
    arrays: dict[str, Any] = {}
    for index, name in enumerate(columns):
        cells = [row[index] for row in rows]
        try:
            arrays[name] = pyarrow.array(cells)
        except (pyarrow.ArrowException, OverflowError):  # one column of several kinds: a user's parameter may be
            arrays[name] = pyarrow.array([None if cell is None else str(cell) for cell in cells])
    pyarrow.parquet.write_table(pyarrow.table(arrays), path)
