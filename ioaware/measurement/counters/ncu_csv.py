"""Parse ncu's `--csv --page raw`.

Columns go by name, units by the unit row, and ambiguities are refused.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from ioaware.errors import DataError

Dimension = Literal["byte", "time", "count"]

MAX_CHARACTERS = 64 * 2**20
MAX_ROWS = 10**6

# ncu's prefixes are decimal: 1 Kbyte is 1000 bytes. A unit that is not here is refused, never guessed ("KB" would be).
UNITS: Mapping[Dimension, Mapping[str, Decimal]] = {
    "byte": {
        f"{prefix}byte{per}": Decimal(10) ** power
        for prefix, power in (("", 0), ("K", 3), ("M", 6), ("G", 9), ("T", 12))
        for per in ("", "/block")
    },
    "time": {
        unit: Decimal(10) ** power
        for units, power in ((("ns", "nsecond"), 0), (("us", "usecond"), 3), (("ms", "msecond"), 6), (("s", "second"), 9))
        for unit in units
    },
    "count": dict.fromkeys(("", "register/thread", "sector", "inst", "wavefront", "cycle"), Decimal(1)),
}

_PLAIN = re.compile(r"\d+(\.\d+)?")
_GROUPED = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")
_GRID = re.compile(r"\((\d+), (\d+), (\d+)\)")
_RANGE = re.compile(r":ioaware:(\d+):")


@dataclass(frozen=True, slots=True)
class Metric:
    """A required column and what it measures, in bytes, nanoseconds or counts."""

    name: str
    dimension: Dimension


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One profiled kernel.

    `launch_index` is that of its NVTX range `ioaware:<index>`, None outside of any.
    """

    kernel: str
    grid: tuple[int, int, int]
    launch_index: int | None
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Table:
    """All profiled kernels in launch order; `has_ranges`: ncu wrote NVTX columns."""

    rows: tuple[KernelRow, ...]
    has_ranges: bool


def read_table(text: str, metrics: Sequence[Metric]) -> Table:
    """Return the profiled kernels with the given metrics.

    Raises `DataError` with row, column and cell.
    """
    if len(text) > MAX_CHARACTERS:
        raise _refusal(f"it is {len(text)} characters long, more than the {MAX_CHARACTERS} this reader accepts")
    header, units, body = _split(text)
    columns = _columns(header, ("Kernel Name", "Grid Size", *(metric.name for metric in metrics)))
    scales = {metric.name: _scale(metric, units[columns[metric.name]]) for metric in metrics}
    range_columns = [index for index, name in enumerate(header) if "Push/Pop_Range" in name]
    rows: list[KernelRow] = []
    for number, cells in enumerate(body):
        if len(cells) != len(header):
            raise _refusal(f"kernel row {number} has {len(cells)} cells where the header has {len(header)}: it is truncated")
        values = {name: _number(cells[columns[name]], scales[name], f"kernel row {number}, {name}") for name in scales}
        rows.append(
            KernelRow(
                cells[columns["Kernel Name"]],
                _grid(cells[columns["Grid Size"]], number),
                _launch_index(cells[index] for index in range_columns),
                values,
            )
        )
    return Table(tuple(rows), bool(range_columns))


def read_ranges(text: str, metrics: Sequence[Metric]) -> list[dict[str, int]]:
    """Return the metrics of each profiled range, in order.

    A row of range replay covers several kernels, so it has no name and no grid. Raises `DataError` as `read_table`.
    """
    header, units, body = _split(text)
    columns = _columns(header, [metric.name for metric in metrics])
    scales = {metric.name: _scale(metric, units[columns[metric.name]]) for metric in metrics}
    if any(len(cells) != len(header) for cells in body):
        raise _refusal("a row is truncated")
    return [
        {name: _number(cells[columns[name]], scale, f"range {number}, {name}") for name, scale in scales.items()}
        for number, cells in enumerate(body)
    ]


def _split(text: str) -> tuple[list[str], list[str], list[list[str]]]:
    """Return header, unit row and kernel rows.

    ncu's own messages (`==PROF==`, `==WARNING==`) are left out.
    """
    start = re.search(r'^"ID",', text, re.MULTILINE)
    if start is None:
        raise _refusal("no table was found in it")
    table: list[list[str]] = []
    try:
        for cells in csv.reader(io.StringIO(text[start.start() :], newline=""), strict=True):
            if cells and not cells[0].startswith("=="):
                table.append(cells)
            if len(table) > MAX_ROWS:
                raise _refusal(f"it has more than {MAX_ROWS} rows")
    except csv.Error as error:
        raise _refusal(f"row {len(table)} is truncated or malformed ({error})") from error
    if len(table) < 2 or table[1][0] != "":
        raise _refusal("the row of units after the header is missing")
    if len(table[1]) != len(table[0]):
        raise _refusal(f"the row of units has {len(table[1])} cells where the header has {len(table[0])}")
    return table[0], table[1], table[2:]


def _columns(header: Sequence[str], needed: Sequence[str]) -> dict[str, int]:
    missing = [name for name in needed if name not in header]
    if missing:
        raise _refusal(f"it has no column {', '.join(missing)}: this GPU or this ncu does not know the metric")
    double = [name for name in needed if header.count(name) > 1]
    if double:
        raise _refusal(f"column {', '.join(double)} is there twice")
    return {name: header.index(name) for name in needed}


def _scale(metric: Metric, unit: str) -> Decimal:
    known = UNITS[metric.dimension]
    if unit not in known:
        raise _refusal(f"{metric.name} has the unit {unit!r}, known are {', '.join(repr(name) for name in known)}")
    return known[unit]


def _number(cell: str, scale: Decimal, where: str) -> int:
    """Parse a number into a whole count of base units.

    A comma is a thousands separator only where it cannot be a decimal comma. ncu scales values so that prefixed ones stay
    short: `134,218 Mbyte` comes from another locale and is refused.
    """
    grouped = _GROUPED.fullmatch(cell)
    if not (_PLAIN.fullmatch(cell) or grouped):
        raise _refusal(f"{where}: the cell {cell[:40]!r} is not a number")
    if grouped and scale != 1 and "." not in cell:
        raise _refusal(f"{where}: the comma in {cell[:40]!r} may be a decimal comma")
    value = Decimal(cell.replace(",", "")) * scale
    if value != value.to_integral_value():
        raise _refusal(f"{where}: {cell[:40]!r} is not a whole number of base units")
    return int(value)


def _grid(cell: str, number: int) -> tuple[int, int, int]:
    match = _GRID.fullmatch(cell)
    if match is None:
        raise _refusal(f"kernel row {number}: the grid size {cell[:40]!r} is not of the form (x, y, z)")
    x, y, z = match.groups()
    return int(x), int(y), int(z)


def _launch_index(cells: Iterable[str]) -> int | None:
    """Return the index of the innermost range.

    Indices grow as ranges open, so it is the largest.
    """
    return max((int(index) for cell in cells for index in _RANGE.findall(cell)), default=None)


def _refusal(why: str) -> DataError:
    return DataError(
        f"ncu's CSV cannot be trusted: {why}", "Run the measurement again; if it persists, `ioaware doctor` checks ncu."
    )
