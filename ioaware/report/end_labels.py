"""Place the names of curves and points apart from each other and from lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ioaware.report import style
from ioaware.report.chart import Cell, Panel, Series
from ioaware.report.label_boxes import Box, Line
from ioaware.report.scales import cell_limits, panel_limits, place

Anchor = Literal["start", "middle", "end"]
WORD = 0.15
"""Approximate share of a panel's width that a curve's name takes."""
LETTER = 0.017
"""Approximate share of a panel's width that a character of a name takes."""


@dataclass(frozen=True, slots=True)
class EndLabel:
    """A name at (x, y) in the axes' units.

    `anchor` is the part of the text that is there.
    """

    x: float
    y: float
    text: str
    color: str
    anchor: Anchor = "start"


@dataclass(frozen=True, slots=True)
class _Placed:
    """A series' name at a relative height (0 to 1).

    `end` is the relative x of the series' end.
    """

    series: Series
    height: float
    end: float
    anchor: Anchor = "start"


def end_labels(cell: Cell, panel: Panel) -> list[EndLabel]:
    """Return the names of curves and of single points.

    They are spread apart where they would overlap. A curve's name is at its end, to the right of points that would lie under
    it. That of a single point is below it to the right, or above it to the left where a line would cross it.
    """
    (low, high), (left, right) = panel_limits(panel), cell_limits(cell)
    line = 0.085 / panel.height
    relative = {
        number: [(place(cell.x, x, left, right), place(panel.y, y, low, high)) for x, y in zip(series.x, series.y, strict=True)]
        for number, series in enumerate(panel.series)
    }
    named = [(series, relative[number]) for number, series in enumerate(panel.series) if series.label and series.y]
    ends = sorted(((points[-1], series) for series, points in named if len(points) > 1), key=lambda one: one[0][1])
    heights = spread([height for (_, height), _ in ends], line)
    placed = [_Placed(series, height, end) for height, ((end, _), series) in zip(heights, ends, strict=True)]
    lines = [relative[number] for number, series in enumerate(panel.series) if style.FORMS[series.mark].dash]
    for series, points in sorted((one for one in named if len(one[1]) == 1), key=lambda one: -one[1][0][1]):
        placed.append(_beside_point(series, points[0], placed, lines, line))
    marked = [
        (*relative[number][index], x)
        for number, series in enumerate(panel.series)
        if style.FORMS[series.mark].marker
        for index, x in enumerate(series.x)
    ]
    return [_at(one, low, high, marked, line, log=panel.y.log) for one in placed]


def _beside_point(
    series: Series, point: tuple[float, float], placed: Sequence[_Placed], lines: Sequence[Line], line: float
) -> _Placed:
    """Return the place of a single point's name, below or left of it.

    `line` is the relative height of a line of text.
    """
    at, own = point
    wide = LETTER * len(series.label)
    near = [one.height for one in placed if at < one.end + LETTER * len(one.series.label) and one.end < at + wide]
    height = own - 0.8 * line
    while any(abs(other - height) < line for other in near):
        height -= 0.1 * line
    below = Box(at + LETTER, at + wide, height - line / 3, height + line / 3)
    raised = own + 0.7 * line
    above = Box(at - wide, at - LETTER, raised - line / 3, raised + line / 3)
    if below.crossed_by(lines) and above.left > 0 and not above.crossed_by(lines):
        return _Placed(series, raised, at, "end")
    return _Placed(series, height, at)


def _at(
    one: _Placed, low: float, high: float, marked: Sequence[tuple[float, float, float]], line: float, *, log: bool
) -> EndLabel:
    """Return a name in the axes' units.

    It is to the right of the marks (relative x, y; x) that would be under it.
    """
    under = [x for across, up, x in marked if one.end < across < one.end + WORD and abs(up - one.height) < 0.55 * line]
    x = one.series.x[-1] if one.anchor == "end" else max([one.series.x[-1], *under])
    y = low * (high / low) ** one.height if log else low + one.height * (high - low)
    return EndLabel(x, y, one.series.label, one.series.color, one.anchor)


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Move ascending positions as little as needed for a distance of `gap`.

    They stay within 0..1 where possible.
    """
    moved = list(places)
    for _ in range(50):
        for index in range(1, len(moved)):
            short = gap - (moved[index] - moved[index - 1])
            if short > 1e-9:
                moved[index - 1] -= short / 2
                moved[index] += short / 2
        if moved and moved[-1] > 1:
            moved[-1] = 1.0
        if moved and moved[0] < 0:
            moved[0] = 0.0
    return moved
