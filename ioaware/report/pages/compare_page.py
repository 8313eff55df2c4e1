"""Draw the page of two versions of a kernel.

It shows what changed, number by number, term by term and line by line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioaware.display.text import clean, params_text, without_folders
from ioaware.display.units import times_text
from ioaware.report.chart import Axis, Cell, Figure, Panel, Series, cell_of, drawable, series_of
from ioaware.report.pages.document import Document
from ioaware.report.pages.figure_set import Shown
from ioaware.report.pages.findings import Findings
from ioaware.report.pages.over import Curve
from ioaware.report.pages.over_figure import BYTES
from ioaware.report.pages.two_versions import LinePair, Pair, changed_lines, numbers, terms
from ioaware.report.svg.bars import Bar, BarFigure
from ioaware.report.table_cells import bytes_shown, cell, columns

OLD, NEW = "standard", "flash1"
"""Colours of the versions."""
MAX_LINES, MAX_TERMS = 600, 60
BESIDE = {"read sectors": "read sectors", "write sectors": "write sectors", "HBM, simulated": "simulated HBM bytes"}
"""Rows of the first sentence, where they change otherwise than requested bytes."""
SAME = 0.005


def compare_page(old: Findings, new: Findings, command: str, *, with_text: bool = True) -> Document:
    """Return the page of two versions at the same parameters.

    Without `with_text` lines appear by number alone.
    """
    names = _names(old, new)
    rows = numbers(old, new)
    lines = list(changed_lines(old, new)) if with_text else [one for one in changed_lines(old, new) if _moves(one)]
    values: dict[str, Any] = {
        "old": clean(old.derived.target),
        "new": clean(new.derived.target),
        "old_params": params_text(old.derived.params),
        "new_params": params_text(new.derived.params),
        "exact": old.derived.exact and new.derived.exact,
        "headline": _headline(old, new) + _beside(old, new, rows),
        "number_columns": columns("A", "B", "B ÷ A", words=("bytes",)),
        "numbers": [_row(row) for row in rows],
        "term_columns": columns("A", "B", "B − A", words=("term",)),
        "terms": [_term(row) for row in terms(old, new)[:MAX_TERMS]],
        "with_text": with_text,
        "lines": [_line(line, with_text=with_text) for line in lines[:MAX_LINES]],
        "lines_left": max(0, len(lines) - MAX_LINES),
        "made": "",
    }
    figures = [Shown(_bars(rows, names), command), *([Shown(over, command + old.ranges)] if (over := _over(old, new)) else [])]
    return Document("compare.html", f"{names[0]} → {names[1]}", values, figures)


def _names(old: Findings, new: Findings) -> tuple[str, str]:
    """Return the targets without folders, or whole where that makes them equal."""
    targets = (old.derived.target, new.derived.target)
    short = (without_folders(targets[0]), without_folders(targets[1]))
    one, other = short if short[0] != short[1] else targets
    return clean(one), clean(other)


def _headline(old: Findings, new: Findings) -> str:
    before, after = (one.derived.requested.total_bytes if one.derived.requested else None for one in (old, new))
    if before is None or after is None:
        return "How many bytes a version requests depends on data; the terms name what decides it."
    if before == after:
        return f"Both versions request {bytes_shown(before)}."
    ratio = times_text(after / before, padded=True) if before else "more"
    return f"A requests {bytes_shown(before)}, B {bytes_shown(after)}: {ratio} as many bytes."


def _beside(old: Findings, new: Findings, rows: Sequence[Pair]) -> str:
    """Return a sentence on sectors and HBM bytes, where they change otherwise."""
    requested = Pair("", old.requested_bytes, new.requested_bytes).ratio
    ratios = [(row.ratio, BESIDE[row.name]) for row in rows if row.name in BESIDE]
    changed = [(ratio, name) for ratio, name in ratios if ratio and requested and abs(ratio / requested - 1) > SAME]
    said = " and ".join(f"{times_text(ratio)} the {name}" for ratio, name in changed)
    return f" B has {said} of A." if said else ""


def _row(row: Pair) -> list[dict[str, Any]]:
    ratio = row.ratio
    numbers_ = (cell(bytes_shown(row.old), row.old), cell(bytes_shown(row.new), row.new))
    return [cell(row.name), *numbers_, cell("" if ratio is None else times_text(ratio, padded=True), ratio)]


def _term(row: Pair) -> list[dict[str, Any]]:
    both = row.old is not None and row.new is not None
    change = (row.new or 0) - (row.old or 0) if both else None
    sign = "" if not change else "+" if change > 0 else "−"
    shown = "data decide" if change is None else "same" if change == 0 else sign + bytes_shown(abs(change))
    named = cell(row.name) | {"html": row.html}
    return [named, cell(bytes_shown(row.old), row.old), cell(bytes_shown(row.new), row.new), cell(shown, change)]


def _moves(line: LinePair) -> bool:
    return any(cost is not None and cost.line.accesses for cost in (line.old, line.new))


def _line(line: LinePair, *, with_text: bool) -> dict[str, Any]:
    before, after = (cost.bytes if cost and cost.line.accesses else None for cost in (line.old, line.new))
    shown = line.new or line.old
    change = "" if before == after else "more" if (after or 0) > (before or 0) else "less"
    return {
        "function": line.function,
        "change": line.change,
        "sign": {"same": "", "removed": "−", "added": "+"}[line.change],
        "moved": change,
        "old_number": line.old.line.number if line.old else "",
        "new_number": line.new.line.number if line.new else "",
        "source": clean(shown.line.text, 500) if shown and with_text else "",
        "old_bytes": _bytes(before, line.old is not None and bool(line.old.line.accesses)),
        "new_bytes": _bytes(after, line.new is not None and bool(line.new.line.accesses)),
    }


def _bytes(value: int | None, moves: bool) -> str:
    return "" if not moves else "data decide" if value is None else bytes_shown(value)


def _bars(rows: list[Pair], names: tuple[str, str]) -> BarFigure:
    bars = [
        Bar(f"{row.name}, {name}", value, bytes_shown(value), color)
        for row in rows
        for name, value, color in (("A", row.old, OLD), ("B", row.new, NEW))
    ]
    title = f"Bytes of both versions: A is {names[0]}, B is {names[1]}"
    return BarFigure("bytes", title, "Orange: A, the old version. Blue: B, the new one.", tuple(bars))


def _over(old: Findings, new: Findings) -> Figure | None:
    """Return a cell per parameter that both versions have a curve of."""
    later = {one.span.name: one for one in new.curves}
    names = _names(old, new)
    cells = [_cell(one, later[one.span.name], names) for one in old.curves if one.span.name in later]
    caption = "Requested bytes of both versions by their formulas, evaluated at every point."
    figure = Figure("over", "Bytes over the parameters", caption, tuple(cell for cell in cells if cell.panels))
    return drawable(figure)


def _cell(old: Curve, new: Curve, names: tuple[str, str]) -> Cell:
    def line(side: str, name: str, color: str, one: Curve) -> tuple[Series, ...]:
        rows = [
            (float(point.value), float(moved), f"{one.span.name} = {point.value:,}\n{side}: {bytes_shown(moved)}")
            for point in one.points
            for moved in [point.requested_bytes]
        ]
        return series_of(f"{side}: {name}", color, "derive", rows, side)  # pyright: ignore[reportArgumentType]

    both = (*line("A", names[0], OLD, old), *line("B", names[1], NEW, new))
    return cell_of(old.span.name, Axis(old.span.name, "size"), Panel(BYTES, both))
