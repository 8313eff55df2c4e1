"""A number that no figure can show removes its point.

The report is still written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ioaware.analysis.theory.claims.claim import Claim
from ioaware.report.attention.attention_page import Contents, attention_figures, attention_page
from ioaware.report.attention.recorded_bytes import NONE
from ioaware.report.chart import Figure
from ioaware.report.comparable_points import Points
from ioaware.report.figures.roofline import Roofs
from ioaware.report.pages.document import write_document
from ioaware.report.svg.plot import WIDE, draw_cell
from ioaware.result import Result, Timing, Traffic

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
LARGE = 10**30
Change = Callable[[Result], Result]
ZERO, HUGE = Traffic(0, 0, 0, 0, 0), Traffic(LARGE, LARGE, LARGE, LARGE, LARGE)
CHANGES: dict[str, Change] = {
    "requested": lambda result: replace(result, requested=ZERO),
    "hbm": lambda result: replace(result, hbm=ZERO),
    "compulsory": lambda result: replace(result, compulsory=ZERO),
    "lower bound": lambda result: replace(result, lower_bound_bytes=0),
    "flops": lambda result: replace(result, flops=0),
    "extra memory": lambda result: replace(result, extra_memory_bytes=0),
    "time": lambda result: replace(result, time_ns=0.0, timing=Timing(0.0, 0.0, 0.0, 0.0, 5) if result.timing else None),
    "all of it": lambda result: replace(
        result, requested=ZERO, hbm=ZERO, compulsory=ZERO, lower_bound_bytes=0, flops=0, extra_memory_bytes=0, time_ns=0.0
    ),
    "huge": lambda result: replace(
        result,
        requested=HUGE,
        hbm=HUGE,
        compulsory=HUGE,
        lower_bound_bytes=LARGE,
        flops=LARGE,
        extra_memory_bytes=LARGE,
        time_ns=1e29,
    ),
    "tiny": lambda result: replace(result, time_ns=5e-324, timing=None),
}


@pytest.fixture(scope="module")
def few(results: Sequence[Result]) -> list[Result]:
    """Return enough of the invented results for every figure."""
    return [r for r in results if r.params["head_dim"] == 64 and (r.source != "predict" or r.params["seq_len"] % 512 == 0)]


def draw_figures(results: Sequence[Result], claims: Sequence[Claim], roofs: Roofs) -> list[Figure]:
    figures = attention_figures(Contents(results, claims, NONE, roofs=roofs), Points(results))
    return [shown.figure for shown in figures if isinstance(shown.figure, Figure)]


def coordinates(figures: Sequence[Figure]) -> Iterator[tuple[bool, float]]:
    """Yield every coordinate of the figures, and whether its axis is logarithmic."""
    for figure in figures:
        for cell in figure.cells:
            for panel in cell.panels:
                for series in panel.series:
                    yield from ((cell.x.log, x) for x in series.x)
                    yield from ((panel.y.log, y) for y in series.y)
                    yield from ((panel.y.log, y) for pair in series.spread for y in pair)


@pytest.mark.parametrize("source", ["predict", "trace", "measure"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_impossible_numbers_do_not_break_the_figures(
    change: Change, source: str, few: Sequence[Result], full_claims: Sequence[Claim], full_roofs: Roofs
) -> None:
    """In one point of a source, and in all of them."""
    one = next(result for result in reversed(few) if result.source == source and result.target == "flash2")
    for wrong in ([one], [result for result in few if result.source == source]):
        changed = [change(result) if any(result is other for other in wrong) else result for result in few]
        figures = draw_figures(changed, full_claims, full_roofs)
        assert all(math.isfinite(value) and (value > 0 or not log) for log, value in coordinates(figures))
        drawn = "".join(draw_cell(cell, WIDE, "").svg for figure in figures for cell in figure.cells)
        assert re.findall(r"[\"M,L](?:nan|-?inf)\b", drawn) == []


def test_the_other_points_are_still_drawn(few: Sequence[Result], full_claims: Sequence[Claim], full_roofs: Roofs) -> None:
    one = next(result for result in few if result.source == "measure" and result.target == "flash2" and result.hbm)
    changed = [CHANGES["hbm"](result) if result is one else result for result in few]
    before, after = (
        {figure.name: sum(1 for _ in coordinates([figure])) for figure in draw_figures(each, full_claims, full_roofs)}
        for each in (few, changed)
    )
    assert before.keys() == after.keys()
    lost = sum(before.values()) - sum(after.values())
    assert 0 < lost < 20


def test_pictures_of_zeros_are_drawn(
    few: Sequence[Result], full_claims: Sequence[Claim], full_roofs: Roofs, tmp_path: Path
) -> None:
    changed = [
        replace(CHANGES["all of it"](result), timing=None) if index % 3 == 0 else result for index, result in enumerate(few)
    ]
    write_document(attention_page(Contents(changed, full_claims, NONE, roofs=full_roofs, live=True), NOW), tmp_path)
    assert len(list(tmp_path.glob("*.png"))) >= 4
