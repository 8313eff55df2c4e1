"""Give the numbers behind a figure, and write them small.

The page offers them as CSV and JSON. Its script undoes what `packed` does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ioaware.display.text import clean
from ioaware.report.chart import Figure
from ioaware.report.pages.figure_set import Shown
from ioaware.report.svg.bars import BarFigure

ENDS = ("low", "high")
"""Columns of the ends of a whisker: a range, or an error bar."""
NO_ENDS = [None, None]
BETWEEN = "; "
"""What stands between the lines of a text."""
_PIECE = re.compile(r".+?(?:[,;] |\Z)", re.DOTALL)


def figure_data(shown: Shown) -> dict[str, Any]:
    """Return the title, the command, the names of columns, and rows."""
    figure = shown.figure
    about = {"title": clean(figure.title), "command": clean(shown.command, 2000)}
    if isinstance(figure, BarFigure):
        kind, columns = "bars", ["name", "value", "shown", *ENDS]
        rows = [[clean(bar.name), bar.value, clean(bar.shown), *(bar.interval or NO_ENDS)] for bar in figure.bars]
    else:
        kind, columns, rows = "plot", ["cell", "panel", "series", "x", "y", "shown", *ENDS], list(_rows(figure))
    if all(row[-2:] == NO_ENDS for row in rows):
        columns, rows = columns[:-2], [row[:-2] for row in rows]
    return about | {"kind": kind, "columns": columns, "rows": rows}


def packed(data: dict[str, Any]) -> dict[str, Any]:
    """Return a plot's data with each name of a series, text and piece of a text once.

    `runs` are the rows by series: cell, panel, number of the name, and lists of x, y, texts and ends of error bars. A text that
    an earlier row has is that row's number; another is a list of pieces and of numbers of `pieces`, which several texts share.
    """
    if data["kind"] == "bars":
        return data
    rows: list[list[Any]] = data["rows"]
    names = {name: number for number, name in enumerate(dict.fromkeys(row[2] for row in rows))}
    uses = Counter(piece for text in dict.fromkeys(row[5] for row in rows) for piece in _pieces(text))
    shared = {piece: number for number, piece in enumerate(piece for piece, count in uses.most_common() if count > 1)}
    first: dict[str, int] = {}
    runs: list[list[Any]] = []
    for number, (cell, panel, name, x, y, text, *ends) in enumerate(rows):
        if not number or rows[number - 1][:3] != [cell, panel, name]:
            runs.append([cell, panel, names[name], *([] for _ in range(3 + len(ends)))])
        before = first.setdefault(text, number)
        short: Any = [shared.get(piece, piece) for piece in _pieces(text)] or ""
        for column, value in zip(runs[-1][3:], (x, y, short if before == number or not text else before, *ends), strict=True):
            column.append(value)
    return {name: data[name] for name in data if name != "rows"} | {"names": list(names), "pieces": list(shared), "runs": runs}


def _pieces(text: str) -> list[str]:
    """Return a text in pieces, each with the comma or semicolon that ends it."""
    return _PIECE.findall(text)


def _rows(figure: Figure) -> Iterator[list[Any]]:
    for number, cell in enumerate(figure.cells):
        for at, panel in enumerate(cell.panels):
            for series in (one for one in panel.series if one.mark != "path"):  # its points are a series of their own
                for index, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
                    shown = clean(series.hover[index].replace("\n", BETWEEN)) if series.hover else ""
                    ends = [_short(end) for end in series.spread[index]] if series.spread else NO_ENDS
                    yield [number, at, clean(series.name), _short(x), _short(y), shown, *ends]


def _short(value: float) -> float | int:
    """Return nine digits of a number, without `.0` where it is whole."""
    near = float(f"{value:.9g}")
    return int(near) if near.is_integer() and abs(near) < 2**53 else near
