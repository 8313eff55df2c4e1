"""Build the report from results and claims: one HTML file and its PNGs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioaware import __version__
from ioaware._atomic_file import atomic_write, make_directory
from ioaware.display.text import claim_title, clean, params_text
from ioaware.display.units import bytes_text, time_text
from ioaware.report import style, tables
from ioaware.report.chart import Figure, Mark, drawable
from ioaware.report.comparable_points import Points
from ioaware.report.draw_html import draw_html
from ioaware.report.draw_png import draw_png
from ioaware.report.figures.blocks import blocks
from ioaware.report.figures.exponents import exponents
from ioaware.report.figures.memory import memory
from ioaware.report.figures.roofline import Roofs, roofline
from ioaware.report.figures.speed import speeds
from ioaware.report.figures.traffic import traffic
from ioaware.report.figures.what_binds import units
from ioaware.report.kernel_points import Pair
from ioaware.report.page import render_page
from ioaware.report.summary import summarise
from ioaware.result import Result

if TYPE_CHECKING:
    from ioaware.analysis.theory.claims.claim import Claim
    from ioaware.bench.race_record import Record

TITLE = "The memory traffic of attention: theory, kernels, hardware"
SUBTITLE = (
    "Standard attention, FlashAttention-1 and FlashAttention-2, forward: "
    "the bytes that closed forms predict, that the real kernels request, and that a GPU moved."
)
SHORT = {
    "traffic": "Traffic, full", "traffic_causal": "Traffic, causal", "blocks": "Block size and M", "memory": "Extra memory",
    "roofline": "Roofline", "units": "What binds on Hopper", "exponents": "Exponents",
    "speed_forward": "Speed, forward", "speed_backward": "Speed, backward", "speed_decode": "Speed, decode",
}  # fmt: skip
MAX_ROWS = 600  # of a table: the page stays small enough to open anywhere
MAX_ENVIRONMENTS = 6
TONES = {"holds": "holds", "fails": "fails", "failed": "fails", "impossible": "fails", "wrong output": "fails"}


def build_report(
    out_dir: Path,
    results: Sequence[Result],
    claims: Sequence[Claim],
    *,
    live: bool,
    roofs: Roofs | None = None,
    kernels: Sequence[Pair] = (),
    race: Sequence[Record] = (),
    missing: Sequence[str] = (),
    environment: Mapping[str, Any] | None = None,
    now: datetime | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write `report.html` and a PNG per figure into `out_dir`.

    Return the HTML file's path.

    `kernels` are measured points of third-party kernels with their derivations, `race` the records of `ioaware bench
    attention`; both are recorded. `live`: this run took the measurements. `missing` are sentences that the report
    prints. `environment` describes the machine of this run. Files are replaced atomically.

    Raises `UsageError` without plotly, `WriteError` where the files cannot be written.
    """
    points = Points(results)
    figures = draw_figures(points, claims, roofs, kernels, race)
    progress("writing the page")
    page = _page(points, results, claims, kernels, figures, live, missing, environment, now or datetime.now(UTC))
    make_directory(out_dir)
    for figure in figures:
        progress(f"drawing {figure.name}.png")
        _write(out_dir / f"{figure.name}.png", draw_png(figure))
    path = out_dir / "report.html"
    _write(path, page.encode("utf-8"))
    return path


def draw_figures(
    points: Points, claims: Sequence[Claim], roofs: Roofs | None, kernels: Sequence[Pair] = (), race: Sequence[Record] = ()
) -> list[Figure]:
    """Return every figure that the data supports, in reading order."""
    found = (
        traffic(points, causal=False),
        traffic(points, causal=True),
        blocks(points),
        memory(points),
        roofline(points, roofs),
        units(kernels),
        *speeds(race),
        exponents(claims),
    )
    return [shown for figure in found if figure is not None and (shown := drawable(figure)) is not None]


def _write(path: Path, data: bytes) -> None:
    """Write the file atomically and durably: a failure leaves the old one."""
    with atomic_write(path) as partial, partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _page(
    points: Points,
    results: Sequence[Result],
    claims: Sequence[Claim],
    kernels: Sequence[Pair],
    figures: Sequence[Figure],
    live: bool,
    missing: Sequence[str],
    environment: Mapping[str, Any] | None,
    now: datetime,
) -> str:
    measured = [result for result in results if result.source == "measure"]
    problems, seen = tables.problems(results, points), tables.environments(measured)
    paired = {id(pair.measured) for pair in kernels}
    others = [result for result in points.others if id(result) not in paired]
    graphs = {f"{figure.name}-{index}": draw_html(cell) for figure in figures for index, cell in enumerate(figure.cells)}
    here = {"written": now.strftime("%Y-%m-%d %H:%M UTC"), "ioaware": __version__, **(environment or {})}
    values: dict[str, Any] = {
        "title": TITLE,
        "subtitle": SUBTITLE,
        "summary": summarise(points, claims, kernels),
        "live": live,
        "provenance": _provenance(results, live, seen),
        "missing": [clean(text) for text in missing],
        "figures": [_figure(figure) for figure in figures],
        "claims": [_claim(claim) for claim in claims],
        "text_columns": tables.TEXT_COLUMNS,
        "number_columns": tables.NUMBER_COLUMNS,
        "tables": _tables(points),
        "problems": [_with_tone(row) for row in problems[:MAX_ROWS]],
        "problems_found": _shown(len(problems), "points"),
        "kernel_columns": tables.KERNEL_COLUMNS,
        "kernels": tables.kernel_rows(kernels),
        "others": [_other(result) for result in others[:MAX_ROWS]],
        "others_found": _shown(len(others), "results"),
        "accuracy": tables.accuracy(points),
        "environments": seen[:MAX_ENVIRONMENTS],
        "environments_left": max(0, len(seen) - MAX_ENVIRONMENTS),
        "telemetry": tables.telemetry(measured),
        "notes": tables.notes(points),
        "here": list(tables.facts(here)),
    }
    return render_page(values, graphs)


def _provenance(results: Sequence[Result], live: bool, seen: Sequence[tables.Environment]) -> dict[str, str]:
    """Return a sentence on which numbers were computed in this run and which were recorded earlier."""
    counts = {source: sum(result.source == source for result in results) for source in ("predict", "trace", "measure")}
    computed = f"{counts['predict']:,} predictions and {counts['trace']:,} traces"
    if not counts["measure"]:
        return {"head": "No measurement.", "text": f"This report rests on {computed}, computed in this run without a GPU."}
    gpu = next((text for one in seen for name, text in one.facts if name.lower() in GPU_NAMES), "a GPU")
    if live:
        return {
            "head": "Live.",
            "text": f"All of it was computed in this run: {computed}, and {counts['measure']:,} points measured on {gpu}.",
        }
    return {
        "head": "Recorded.",
        "text": f"The {counts['measure']:,} measured points were recorded earlier on {gpu} and ship with the package; "
        f"{computed} were computed in this run.",
    }


GPU_NAMES = frozenset({"gpu", "gpu.name", "device", "device.name", "gpu_name", "name"})


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "short": SHORT.get(figure.name, figure.title),
        "title": figure.title,
        "caption": figure.caption,
        "png": f"{figure.name}.png",
        "columns": min(figure.columns, len(figure.cells)),
        "cells": [{"id": f"{figure.name}-{index}", "title": cell.title} for index, cell in enumerate(figure.cells)],
        "legend": [_legend_item(mark) for mark in style.legend(figure.marks)],
    }


def _legend_item(mark: Mark) -> dict[str, Any]:
    form = style.FORMS[mark]
    return {
        "meaning": form.meaning,
        "line": bool(form.dash),
        "dash": form.dash,
        "width": form.width * 1.3,
        "marker": form.marker,
        "filled": form.filled,
    }


def _claim(claim: Claim) -> dict[str, Any]:
    evidence = claim.evidence
    comparisons, left_out = tables.evidence_rows(evidence.get("points", ()))
    return {
        "claim": claim_title(claim.claim),
        "statement": clean(claim.statement, 1000),
        "source": clean(claim.source),
        "verdict": claim.verdict,
        "parts": [_verdict_row(row) for row in evidence.get("parts", ())],
        "exponents": [
            {
                **_verdict_row(row),
                "interval": f"{_four(row.get('low'))} to {_four(row.get('high'))}",
                "exponent": _four(row.get("exponent")),
            }
            for row in evidence.get("exponents", ())
        ],
        "comparisons": comparisons,
        "compared": len(comparisons) + left_out,
        "left_out": left_out,
        "notes": [clean(note, 1000) for note in evidence.get("notes", ())],
    }


def _verdict_row(row: Mapping[str, Any]) -> dict[str, str]:
    """Return a row of evidence as text, with the tone of its verdict."""
    return {name: clean(value) for name, value in row.items()} | {"tone": TONES.get(str(row.get("verdict")), "inconclusive")}


def _four(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else clean(value)


def _tables(points: Points) -> list[dict[str, Any]]:
    found = [("Measured", tables.point_rows(points, "measure")), ("Traced", tables.point_rows(points, "trace"))]
    return [{"title": f"{name}: {_shown(len(rows), 'points')}", "rows": rows[:MAX_ROWS]} for name, rows in found if rows]


def _shown(count: int, what: str) -> str:
    """Return `512 points`, and the number shown where not all are."""
    return f"{count:,} {what}" if count <= MAX_ROWS else f"{count:,} {what}, the first {MAX_ROWS:,} shown"


def _with_tone(row: tables.Problem) -> dict[str, str]:
    return {
        "target": row.target, "source": row.source, "params": row.params, "status": row.status, "why": row.why,
        "tone": TONES.get(row.status, "inconclusive"),
    }  # fmt: skip


def _other(result: Result) -> tuple[str, ...]:
    requested, hbm = (None if place is None else place.total_bytes for place in (result.requested, result.hbm))
    return (
        clean(result.target),
        result.source,
        params_text(result.params),
        bytes_text(requested),
        bytes_text(hbm),
        time_text(result.time_ns),
    )
