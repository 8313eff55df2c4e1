"""Draw a sparkline as SVG.

One value a run from left to right, gaps where a run has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ioaware.display.text import clean
from ioaware.report.svg.elements import Drawing, dots, drawing, element, path

WIDTH, HEIGHT, MARGIN = 180, 30, 4
MOST_POINTS = 200


def draw_sparkline(values: Sequence[float | None], describes: str) -> Drawing:
    """Return the picture of the last values, at most 200.

    `describes` is its text for screen readers.

    The scale reaches from the least to the largest value. A dot marks the last one.
    """
    shown = list(values[-MOST_POINTS:])
    known = [value for value in shown if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    step = (WIDTH - 2 * MARGIN) / max(len(shown) - 1, 1)

    def place(number: int, value: float) -> tuple[float, float]:
        share = (value - low) / (high - low) if high > low else 0.5
        return MARGIN + number * step, HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN)

    parts: list[str] = []
    for present, group in groupby(enumerate(shown), key=lambda one: one[1] is not None):
        run = [place(number, value) for number, value in group if value is not None]
        if present and len(run) > 1:
            parts.append(element("path", class_="line s-flash1", d=path(run), stroke_width=1.6))
        elif present:
            parts.append(element("path", class_="mark circle s-flash1", d=dots(run), stroke_width=4))
    if shown and shown[-1] is not None:
        color = "s-standard" if len(known) > 1 and shown[-1] > low else "s-flash1"
        last = place(len(shown) - 1, shown[-1])
        parts.append(element("path", class_=f"mark circle {color}", d=dots([last]), stroke_width=6))
    return drawing(parts, WIDTH, HEIGHT, class_="spark", role="img", aria_label=clean(describes))
