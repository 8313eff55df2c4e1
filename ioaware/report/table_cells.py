"""Make the columns and cells of a page's tables, which sort by number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from ioaware.display.text import clean
from ioaware.display.units import bytes_text, significant, time_text
from ioaware.measurement.time_bounds import with_bounds
from ioaware.result import Params, Result

Cells = list[dict[str, Any]]
TIME_COLUMNS = ("time", "at least, bound by")
LEAST_SHARE = 1e-4
NEGATIVE = re.compile(r"^-(?=\d)")
bytes_shown, time_shown = partial(bytes_text, padded=True), partial(time_text, padded=True)
"""Write numbers with the same number of digits.

An example is `406.0 MB` beside `406.4 MB`.
"""


def share_text(fraction: float) -> str:
    """Return a share of a whole in percent."""
    if 0 < fraction < LEAST_SHARE:
        return f"below {100 * LEAST_SHARE:g} %"
    return f"{significant(100 * fraction, padded=fraction < 1)} %"


def columns(*numbers: str, words: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return columns of a table: words first, then numbers."""
    return [{"name": name, "number": False} for name in words] + [{"name": name, "number": True} for name in numbers]


def cell(text: object, value: float | None = None) -> dict[str, Any]:
    """Return a cell: its text, and the number that it sorts by.

    A negative number has a minus sign, not a hyphen.
    """
    return {"text": NEGATIVE.sub("−", clean(text)), "value": float(f"{value:.6g}") if isinstance(value, float) else value}


def telling(columns: Sequence[dict[str, Any]], rows: Sequence[Cells]) -> tuple[list[dict[str, Any]], list[Cells]]:
    """Return the columns in which some row has a text, and the rows of these alone."""
    kept = [at for at in range(len(columns)) if any(row[at]["text"] for row in rows)]
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]


def common_params(points: Sequence[Params]) -> Params:
    """Return the parameters that have one value at all of several points."""
    first, *others = points or [{}]
    return {name: value for name, value in first.items() if others and all(one.get(name) == value for one in others)}


def time_cells(result: Result) -> list[dict[str, Any]]:
    """Return cells of a measured time and its bound, computed for records without one."""
    return [cell(time_shown(result.time_ns), result.time_ns), bound_cell(result)]


def bound_cell(result: Result) -> dict[str, Any]:
    """Return the cell of a record's least time and the level that binds."""
    bound = with_bounds(result).time_bound
    least = float(bound["time_ns"]) if bound else None
    return cell(f"{time_shown(least)}, {bound['binds']}" if bound else "", least)
