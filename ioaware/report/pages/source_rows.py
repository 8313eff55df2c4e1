"""Rows of the kernels' source with the cost of each line, and the hot lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ioaware.analysis.formulas.leading_term import leading
from ioaware.analysis.formulas.printing import is_longer_by_data, show
from ioaware.analysis.formulas.typeset import typeset
from ioaware.analysis.ir import Count
from ioaware.derivation.annotated_source import MAX_HOT, AnnotatedSource
from ioaware.derivation.line_costs import LineCost, line_cost
from ioaware.derivation.line_report import Explanation, Section
from ioaware.display.text import clean
from ioaware.display.time_limit import within
from ioaware.display.units import times_text
from ioaware.report.pages.shared_lines import NOT_COUNTED, Lines, SharedLines
from ioaware.report.table_cells import bytes_shown, share_text

MAX_LINES = 1500
MAX_OPEN = 90
"""Characters of a line's formula up to which it is not folded."""
MAX_TEXT = 400
"""Characters of a formula that are shown as text, where it is too long to typeset."""
SECONDS, TYPESET_SECONDS = 1.0, 20.0
"""CPU time for a line's leading term, and for its formula.

A formula of up to the longest length that is typeset takes some 2 s: no slow machine shows it as text.
"""
LONGEST_NAME = 28
"""Characters of a file's name that stand beside a hot line in full."""


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One line.

    Texts are empty where the line moves nothing; `heat` is 0 to 10; `source` is empty where it is withheld. `formula` is HTML:
    the formula or, of a long one, which `folded` holds, its leading term.
    """

    number: int
    source: str
    heat: int
    share: str
    bytes: str
    sectors: str
    overfetch: str
    wasteful: bool
    runs: str
    shared: str
    kinds: str
    formula: str
    folded: str
    place: str


@dataclass(frozen=True, slots=True)
class SourceSection:
    """A function of a kernel with its lines.

    `again`: another kernel has shown it already.
    """

    title: str
    file: str
    rows: tuple[SourceRow, ...]


def hot_rows(source: AnnotatedSource, shared: SharedLines = NOT_COUNTED, *, with_text: bool) -> list[SourceRow]:
    """Return the lines that move the most bytes of the work.

    Each comes with the function that it is in.
    """
    return [
        _row(cost, section, shared.kernels.get(kernel.kernel, {}), with_text=with_text)
        for kernel, section, cost in source.hot()[:MAX_HOT]
    ]


def source_sections(source: AnnotatedSource, shared: SharedLines = NOT_COUNTED, *, with_text: bool) -> Iterator[SourceSection]:
    """Yield the functions of all kernels.

    The text of the lines is left out where it is withheld.

    A function that several kernels call has all its lines the first time and later only those that move bytes.
    """
    shown: set[tuple[str, str]] = set()
    left = MAX_LINES
    for kernel in source.kernels:
        lines_of = shared.kernels.get(kernel.kernel, {})
        for section in kernel.sections:
            again = (section.path, section.function) in shown or not with_text
            shown.add((section.path, section.function))
            name = Path(section.path).name
            lines = [line for line in section.lines if line.accesses or (name, line.number) in lines_of or not again][:left]
            left -= len(lines)
            if lines:
                costs = [line_cost(line, kernel, source.result.values) for line in lines]
                rows = tuple(_row(cost, section, lines_of, with_text=with_text) for cost in costs)
                yield SourceSection(_title(kernel, section), _short(clean(name)), rows)


def _title(kernel: Explanation, section: Section) -> str:
    times = f", {kernel.launches} launches" if kernel.launches > 1 else ""
    of = "" if section.function == kernel.kernel else f" of {clean(kernel.kernel)}"
    return f"{clean(section.function)}{of}{times}"


def _short(name: str) -> str:
    """Return a file's name, of a generated one its beginning and end."""
    return name if len(name) <= LONGEST_NAME else f"{name[:6]}…{name[-9:]}"


def _formula(count: Count) -> tuple[str, str]:
    """Return a formula as HTML, and an empty text.

    Of a long one, return its leading term, and the formula.
    """
    bound, text = "≤ " if count.at_most else "", show(count.expr)
    whole = within(TYPESET_SECONDS, lambda: typeset(count.expr)) or f"<code>{escape(clean(text, MAX_TEXT))}</code>"
    found: Any = within(SECONDS, lambda: leading(count.expr).term) if len(text) > MAX_OPEN else None
    if found is None or found == count.expr or is_longer_by_data(found, count.expr):
        return bound + whole, ""
    first = within(TYPESET_SECONDS, lambda: typeset(found))
    return (bound + first, whole) if first else (bound + whole, "")


def _row(cost: LineCost, section: Section, lines: Lines, *, with_text: bool) -> SourceRow:
    line, name = cost.line, Path(section.path).name
    place, text = f"{_short(clean(name))}:{line.number}", clean(line.text, 500) if with_text else ""
    shared = str(lines.get((name, line.number), ""))
    if not line.accesses:
        return SourceRow(line.number, text, 0, "", "", "", "", False, "", shared, "", "", "", place)
    over = cost.overfetch
    return SourceRow(
        line.number,
        text,
        cost.heat,
        "data" if cost.share is None else share_text(cost.share),
        ("≤ " if line.bytes.at_most else "") + bytes_shown(cost.bytes),
        bytes_shown(cost.sector_bytes),
        "" if over is None else times_text(over),
        over is not None and over > 1.05,
        "data" if cost.runs is None else f"{cost.runs:,}",
        shared,
        line.kinds,
        *_formula(line.bytes),
        place,
    )
