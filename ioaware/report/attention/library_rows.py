"""Make rows on third-party kernels, library by library.

They compare sectors with counters, and HBM bytes with their simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioaware.display.units import percent_text
from ioaware.report.attention.recorded_bytes import Records, Total, totals
from ioaware.report.table_cells import cell, columns
from ioaware.simulation.accuracy import Row, kernel_family

COLUMNS = columns(
    "kernels", "totals", "equal to the last sector", "HBM reads: launches", "median error", "95 % within", words=("library",)
)  # fmt: skip
ERRORS = ("launches", "median error", "95 % within", "worst", "inside the predicted range")
TOGETHER_COLUMNS = columns(*ERRORS, words=("all kernels",))
ACCURACY_COLUMNS = columns(*ERRORS, words=("kernels", "bytes"))
PREFIX = "third-party: "
HELD_OUT = "held out"
"""Family of the points that no constant was fitted to."""


def library_rows(records: Records) -> list[list[dict[str, Any]]]:
    """Return a row per library."""
    asked: dict[str, list[Total]] = {}
    for one in totals(records):
        asked.setdefault(kernel_family(one.target), []).append(one)
    errors = {row.family: row for row in records.accuracy().rows if row.place == "HBM reads"}
    return [_row(family, found, errors.get(family)) for family, found in sorted(asked.items())]


def _row(family: str, found: Sequence[Total], hbm: Row | None) -> list[dict[str, Any]]:
    kernels, equal = {(one.target, one.kernel) for one in found}, sum(one.derived == one.counted for one in found)
    return [
        cell(family.removeprefix(PREFIX).replace("_", " ")),
        cell(len(kernels), len(kernels)),
        cell(len(found), len(found)),
        cell(equal, equal),
        *((cell(hbm.count, hbm.count), _percent(hbm.median), _percent(hbm.percentile_95)) if hbm else (cell(""),) * 3),
    ]


def accuracy_table(records: Records, *, together: bool) -> list[list[dict[str, Any]]]:
    """Return the rows of the table on accuracy.

    `together`: those over all kernels, third-party ones included; otherwise HBM bytes of the held-out ones and of each family
    of this package.
    """
    rows = [row for row in records.accuracy().rows if not row.family.startswith(PREFIX) and row.count]
    rows.sort(key=lambda row: row.family != HELD_OUT)
    return [
        [
            *(() if together else (cell(row.family),)),
            cell(row.place),
            cell(f"{row.count:,}", row.count),
            *(_percent(value) for value in (row.median, row.percentile_95, row.worst)),
            cell(f"{row.inside:,} of {row.count + row.small:,}" if row.has_range else "", row.inside),
        ]
        for row in rows
        if (row.family == "all" if together else row.family != "all" and row.place.startswith("HBM"))
    ]


def causes(records: Records) -> list[tuple[str, int]]:
    """Return the cause of each prediction more than 5 % off, with the number of them."""
    counts: dict[str, int] = {}
    for one in records.accuracy().outliers:
        counts[one.explanation] = counts.get(one.explanation, 0) + 1
    return sorted(counts.items(), key=lambda item: -item[1])


def _percent(value: float) -> dict[str, Any]:
    return cell(percent_text(value), value)
