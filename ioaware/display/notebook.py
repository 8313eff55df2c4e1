"""Print results and claims as small HTML tables, for notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING

from ioaware.display.text import clean, params_text
from ioaware.display.units import UNKNOWN, bytes_text, significant, time_text, times_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from ioaware.analysis.theory.claims.claim import Claim
    from ioaware.result import Result, Traffic

MAX_FORMULA = 1000
FOLDERS = re.compile(r"(?<=\s)/(?:[^/\s]+/)+(?=[^/\s]+:\d)")
"""Matches the folders of a path with a line number in a note."""
PLACES = ("requested", "hbm", "compulsory", "assumed")
BAR = "#0072b2"
DRAWERS: list[Callable[[Result], str]] = []
"""What draws the figures of results.

The report does, which is in a layer above, once `ioaware.api` is loaded.
"""


def result_html(result: Result) -> str:
    """Return the result as HTML: bytes and formulas by place, other numbers, notes.

    All escaped.
    """
    places = [row for name in PLACES for row in _place(name, getattr(result, name))]
    facts = "".join(f"<tr><th>{escape(name)}</th><td colspan='3'>{escape(text)}</td></tr>" for name, text in _facts(result))
    head = f"<b>{escape(clean(result.target))}</b>, {escape(result.source)}"
    status = "" if result.status == "ok" else f", <b>{escape(result.status)}</b>"
    columns = "<tr><th></th><th>reads</th><th>writes</th><th>both</th></tr>" if places else ""
    table = f"<table>{columns}{''.join(places)}{facts}</table>"
    return f"<div>{head}{status}<br><code>{escape(params_text(result.params))}</code>{_figures(result)}{table}</div>"


def _figures(result: Result) -> str:
    """Return the figures that are registered, or else plain bars."""
    return "".join(draw(result) for draw in DRAWERS) if DRAWERS else _bars(result)


def _bars(result: Result) -> str:
    """Return the bytes at each place as bars on one scale.

    Nothing where fewer than two are known.
    """
    found = {name: traffic.total_bytes for name in PLACES if (traffic := getattr(result, name)) is not None}
    known = {name: value for name, value in found.items() if value}
    longest = max(known.values(), default=0)
    rows = (
        f"<tr><th>{name}</th><td style='min-width:20em'><div style='background:{BAR};height:0.9em;width:{value / longest:.2%}'>"
        f"</div></td><td>{bytes_text(value)}</td></tr>"
        for name, value in known.items()
    )
    return f"<table>{''.join(rows)}</table>" if len(known) > 1 else ""


def _place(name: str, traffic: Traffic | None) -> Iterator[str]:
    """Yield a row of bytes, and a row of formulas where there are any."""
    if traffic is None:
        return
    texts = (bytes_text(traffic.read_bytes), bytes_text(traffic.write_bytes), bytes_text(traffic.total_bytes))
    yield f"<tr><th>{name}</th>" + "".join(f"<td style='white-space:nowrap'>{escape(text)}</td>" for text in texts) + "</tr>"
    formulas = (traffic.read_formula, traffic.write_formula)
    if any(formulas):
        cells = "".join(f"<td><code>{escape(clean(formula or UNKNOWN, MAX_FORMULA))}</code></td>" for formula in formulas)
        yield f"<tr><th></th>{cells}<td></td></tr>"


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    requested = result.requested.total_bytes if result.requested else None
    floor = result.compulsory.total_bytes if result.compulsory else None
    if requested is not None and floor:
        yield "requested ÷ compulsory", times_text(requested / floor)
    if result.lower_bound_bytes is not None:
        yield "lower bound", bytes_text(result.lower_bound_bytes)
    if result.flops is not None:
        yield "FLOPs", f"{significant(result.flops, 4)}"
    if result.extra_memory_bytes is not None:
        yield "extra memory", bytes_text(result.extra_memory_bytes)
    if result.time_ns is not None:
        yield "time", time_text(result.time_ns)
    if result.check is not None:
        verdict = "passed" if result.check.passed else "FAILED"
        yield "output", f"relative error {result.check.relative_error:.2g}, {result.check.tolerance:.2g} allowed: {verdict}"
    if not result.exact and result.source != "measure":
        yield "exact", "no"
    for note in result.notes:
        yield "note", clean(note)
    own = [one for one in result.launches if one.origin == "triton"]
    for note in dict.fromkeys(f"{one.kernel}: {FOLDERS.sub('', note)}" for one in own for note in one.notes):
        yield "note", clean(note)


def claims_html(claims: Iterable[Claim]) -> str:
    """Return one row per claim: name, verdict, statement, source. All escaped."""
    rows = (
        f"<tr><th>{escape(clean(claim.claim))}</th><td><b>{escape(claim.verdict)}</b></td>"
        f"<td>{escape(clean(claim.statement))}<br>{escape(clean(claim.source))}</td></tr>"
        for claim in claims
    )
    return f"<table>{''.join(rows)}</table>"


def source_html(target: str, functions: Iterable[tuple[str, Iterable[tuple[str, int, str, str]]]]) -> str:
    """Return a table per function: share of the bytes, line number, source, formula.

    All escaped.
    """
    tables = (
        f"<p><code>{escape(clean(name))}</code></p><table>{''.join(map(_source_row, rows))}</table>" for name, rows in functions
    )
    return f"<div><b>{escape(clean(target))}</b>{''.join(tables)}</div>"


def _source_row(row: tuple[str, int, str, str]) -> str:
    share, number, text, formula = row
    source = f"<td style='text-align:left'><code style='white-space:pre'>{escape(clean(text, MAX_FORMULA))}</code></td>"
    return f"<tr><td>{escape(share)}</td><td>{number}</td>{source}<td>{escape(clean(formula, MAX_FORMULA))}</td></tr>"


def table_html(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a titled table. All escaped."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(clean(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div><b>{escape(clean(title))}</b><table><tr>{head}</tr>{body}</table></div>"
