"""Draw a `Cell` as SVG: panels one above the other that share the x axis.

The picture has classes for colours and no styles, so one text serves both themes of the page and the PNG. The plots carry
their scales as data, from which the page's script zooms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ioaware.display.text import clean
from ioaware.report import style
from ioaware.report.chart import Axis, Cell, Panel, Series
from ioaware.report.end_labels import Anchor, EndLabel, end_labels
from ioaware.report.label_boxes import Box, Line
from ioaware.report.scales import cell_limits, panel_limits, panel_ticks, ticks
from ioaware.report.svg.elements import Drawing, dots, drawing, element, path, text

WIDE, THIRD, NARROW = 620, 420, 350
"""Widths in pixels, by the number of columns, and on a phone.

They are the width of one of two columns or fewer, of one of three, and on a phone.
"""
PANEL_HEIGHT, GAP, TOP, TITLE, AXIS = 230, 34, 20, 22, 46
LEFT, RIGHT, CHARACTER = 62, 16, 6.6
CAP = 3.0
"""Half the width of an error bar's ends."""
LIMITS = ("ceiling", "bound")
"""Forms of lines that have their texts above them."""
Scale = Callable[[float], float]


def draw_cell(cell: Cell, width: int, describes: str) -> Drawing:
    """Return the SVG of a cell at a width in pixels.

    `describes` is its text for screen readers.

    Only a wide one has names at the curves' ends; the legend has them, too. A narrow one has no texts beside points.
    """
    named, tagged = width > THIRD, width > NARROW
    longest = max((len(series.label) for panel in cell.panels for series in panel.series), default=0) if named else 0
    inner = width - LEFT - RIGHT - CHARACTER * longest
    titled = bool(cell.title) and cell.title != cell.x.label
    parts: list[str] = [text(cell.title, LEFT, 13, class_="name title")] if titled else []
    top: float = TOP + (TITLE if titled else 0)
    for number, panel in enumerate(cell.panels):
        height = PANEL_HEIGHT * panel.height
        last = number == len(cell.panels) - 1
        parts.append(_panel(cell, panel, number, inner, top, height, last=last, named=named, tagged=tagged))
        top += height + (GAP if not last else 0)
    parts.append(text(cell.x.label, LEFT + inner / 2, top + AXIS - 8, "middle", class_="name"))
    return drawing(parts, width, round(top + AXIS), class_="plot", role="group", aria_label=describes)


def _panel(
    cell: Cell, panel: Panel, number: int, inner: float, top: float, height: float, *, last: bool, named: bool, tagged: bool
) -> str:
    (x_low, x_high), (y_low, y_high) = cell_limits(cell), panel_limits(panel)
    across, up = scale(cell.x, x_low, x_high, 0, inner), scale(panel.y, y_low, y_high, height, 0)
    x_ticks, y_ticks = _apart(ticks(cell.x, x_low, x_high), across), panel_ticks(panel)
    lines = [path([(across(x), 0), (across(x), height)]) for x, _ in x_ticks]
    lines += [path([(0, up(y)), (inner, up(y))]) for y, _ in y_ticks]
    grid = [element("path", class_="grid", d="".join(lines))]
    guide = (
        []
        if panel.guide is None
        else [element("path", class_="guide", d=path([(0, up(panel.guide)), (inner, up(panel.guide))]))]
    )
    curves = [element("g", _series(series, across, up), data_s=clean(series.name)) for series in panel.series]
    label = clean(f"{panel.y.label} over {cell.x.label}")
    plot = element(
        "svg", [*grid, *guide, *curves], x=LEFT, y=top, width=inner, height=height, viewBox=f"0 0 {inner:.1f} {height:.1f}",
        preserveAspectRatio="none", class_="area", tabindex=0, role="img", aria_label=label,
        data_panel=number, **_data("x", cell.x, x_low, x_high), **_data("y", panel.y, y_low, y_high),
    )  # fmt: skip
    frame = element("path", class_="frame", d=path([(LEFT, top), (LEFT, top + height), (LEFT + inner, top + height)]))
    shown = [text(label, LEFT + across(x), top + height + 16, "middle") for x, label in x_ticks] if last else []
    names = [text(label, LEFT - 7, top + up(y) + 4, "end") for y, label in y_ticks]
    title = text(panel.y.label, 2, top - 9, class_="name")
    labels = end_labels(cell, panel) if named else []
    ends = [_end(one, LEFT + across(one.x), top + up(one.y) + 4) for one in labels]
    taken = [_Place(LEFT + across(one.x) + 7, top + up(one.y) + 4, one.anchor).box(one.text) for one in labels]
    lines = [
        [(LEFT + across(x), top + up(y)) for x, y in zip(series.x, series.y, strict=True)]
        for series in panel.series
        if style.FORMS[series.mark].dash
    ]
    tags = [part for series in panel.series for part in _tags(series, across, up, top, inner, taken, lines)] if tagged else []
    return element(
        "g", [title, frame, element("g", shown, class_="x-ticks"), element("g", names, class_="y-ticks"), plot, *ends, *tags],
        data_panel=number,
    )  # fmt: skip


def _end(label: EndLabel, x: float, y: float) -> str:
    """Return the name of a curve or a point, beside (x, y) in pixels."""
    away = 7 if label.anchor == "start" else -7
    return text(label.text, x + away, y, label.anchor, class_=f"end f-{style.token(label.color)}")


def _tags(
    series: Series, across: Scale, up: Scale, top: float, inner: float, taken: list[Box], lines: Sequence[Line]
) -> Iterator[str]:
    """Yield the short text of each point that has one.

    The text stands above a limit's line. It stands around a point where neither a curve's name nor an earlier text is, both
    `taken`, nor a line. `taken` then has it, too.
    """
    for x, y, tag in zip(series.x, series.y, series.tags, strict=False):
        if tag:
            wide, at, height = CHARACTER * len(tag), LEFT + across(x), top + up(y)
            if series.mark in LIMITS:
                places = [_Place(max(at - 6, LEFT + wide), height - 6, "end")]
            else:
                middle = min(max(at, LEFT + wide / 2), LEFT + inner)
                sides: tuple[tuple[float, Anchor], ...] = ((middle, "middle"), (at + 7, "start"), (at - 7, "end"))
                places = [_Place(left, base, anchor) for base in (height + 15, height - 8) for left, anchor in sides]
            free = [one for one in places if not _covered(one.box(tag), taken, lines)]
            place = (free or places)[0]
            at, base, anchor = place
            taken.append(place.box(f" {tag} "))
            yield text(tag, at, base, anchor, class_=f"end tag f-{style.token(series.color)}")


class _Place(NamedTuple):
    """A text's place in pixels, y downwards."""

    x: float
    base: float
    anchor: Anchor

    def box(self, words: str) -> Box:
        """Return the rectangle of a text there."""
        wide = CHARACTER * len(words)
        left = self.x - wide * {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor]
        return Box(left, left + wide, self.base - 10, self.base + 2)


def _covered(box: Box, taken: Sequence[Box], lines: Sequence[Line]) -> bool:
    """Return whether a name or a line is under a text."""
    return any(box.meets(one) for one in taken) or box.crossed_by(lines)


def _data(name: str, axis: Axis, low: float, high: float) -> dict[str, str]:
    return {
        f"data_{name}": f"{low!r} {high!r}",
        f"data_{name}_scale": "log" if axis.log else "linear",
        f"data_{name}_unit": axis.quantity,
    }


def scale(axis: Axis, low: float, high: float, start: float, end: float) -> Scale:
    """Return the pixel of a value.

    Its axis goes from `low` to `high` and lies between two pixels.
    """
    if axis.log:
        return lambda value: start + (end - start) * math.log(value / low) / math.log(high / low)
    return lambda value: start + (end - start) * (value - low) / (high - low)


def _apart(places: tuple[tuple[float, str], ...], across: Scale) -> tuple[tuple[float, str], ...]:
    """Return every n-th tick, so that no two labels of an x axis overlap."""
    widest = max((len(label) for _, label in places), default=0) * CHARACTER + 8
    steps = [across(right) - across(left) for (left, _), (right, _) in pairwise(places)]
    every = max(1, math.ceil(widest / min(steps))) if steps and min(steps) > 0 else 1
    return tuple(place for number, place in enumerate(reversed(places)) if number % every == 0)[::-1]


def _series(series: Series, across: Scale, up: Scale) -> Iterator[str]:
    form, color = style.FORMS[series.mark], style.token(series.color)
    points = [(across(x), up(y)) for x, y in zip(series.x, series.y, strict=True)]
    if form.dash and len(points) > 1:
        yield element("path", class_=f"line s-{color} {form.dash}", d=path(points), stroke_width=form.width * 1.3)
    marker = form.marker or ("circle" if len(points) == 1 else "")
    if marker:
        yield element("path", class_=f"mark {marker} s-{color}", d=dots(points), stroke_width=form.size * 1.25)
        if not form.filled:
            yield element("path", class_=f"mark {marker} s-paper", d=dots(points), stroke_width=form.size * 1.25 - 3.2)
    bars = [_error_bar(x, up(low), up(high)) for (low, high), (x, _) in zip(series.spread, points, strict=False)]
    if seen := "".join(bar for bar, length in bars if length > form.size):  # a shorter one lies behind its mark
        yield element("path", class_=f"line s-{color}", d=seen, stroke_width=1.4)


def _error_bar(x: float, low: float, high: float) -> tuple[str, float]:
    """Return the `d` of a line with two ends, and its length in pixels."""
    ends = (path([(x - CAP, y), (x + CAP, y)]) for y in (low, high))
    return path([(x, low), (x, high)]) + "".join(ends), abs(low - high)
