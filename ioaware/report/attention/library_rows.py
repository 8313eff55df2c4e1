"""Make rows on third-party kernels, library by library.

They compare sectors with counters, and HBM bytes with their simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioaware.display.units import percent_text
from ioaware.report.attention.recorded_bytes import Records, Total, totals
from ioaware.report.pages.target_page import cell, columns
from ioaware.simulation.accuracy import Row, kernel_family
from ioaware.simulation.accuracy_record.counter_comparison import compare

COLUMNS = columns(
    "kernels", "totals", "equal to the last sector", "HBM reads: launches", "median error", "95 % within", words=("library",)
)  # fmt: skip
ACCURACY_COLUMNS = columns(
    "launches", "median error", "95 % within", "worst", "inside the predicted range", words=("kernels", "bytes")
)  # fmt: skip
PREFIX = "third-party: "


def library_rows(records: Records) -> list[list[dict[str, Any]]]:
    """Return a row per library."""
    asked: dict[str, list[Total]] = {}
    for one in totals(records):
        asked.setdefault(kernel_family(one.target), []).append(one)
    errors = {row.family: row for row in accuracy_rows(records) if row.place == "HBM reads"}
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


def accuracy_rows(records: Records) -> list[Row]:
    """Return the errors of every recorded prediction, by family and place."""
    seen = [one for one in (*records.own, *records.third_party) if one.source == "measure" and one.hbm is not None]
    return compare(seen, records.predictions).rows


def accuracy_table(records: Records) -> list[list[dict[str, Any]]]:
    """Return the rows of the table on accuracy.

    All kernels come first, then this package's families.
    """
    rows = [row for row in accuracy_rows(records) if not row.family.startswith(PREFIX) and row.count]
    rows.sort(key=lambda row: row.family != "all")
    return [
        [
            cell("all, third-party included" if row.family == "all" else row.family),
            cell(row.place),
            cell(f"{row.count:,}", row.count),
            *(_percent(value) for value in (row.median, row.percentile_95, row.worst)),
            cell(f"{row.inside:,} of {row.count + row.small:,}" if row.place.startswith("HBM") else "", row.inside),
        ]
        for row in rows
    ]


def causes(records: Records) -> list[tuple[str, int]]:
    """Return the cause of each prediction more than 5 % off, with the number of them."""
    seen = [one for one in (*records.own, *records.third_party) if one.source == "measure" and one.hbm is not None]
    counts: dict[str, int] = {}
    for one in compare(seen, records.predictions).outliers:
        counts[one.explanation] = counts.get(one.explanation, 0) + 1
    return sorted(counts.items(), key=lambda item: -item[1])


def _percent(value: float) -> dict[str, Any]:
    return cell(percent_text(value), value)
