"""List the series of a figure with their colours and forms.

The page has the list as a legend, and the PNG above its cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from ioaware.display.text import clean
from ioaware.report import style
from ioaware.report.chart import Figure, Mark, Series
from ioaware.report.svg.elements import Drawing, drawing, element, text
from ioaware.report.svg.plot import CHARACTER

SAMPLE, HIGH = 30, 12
"""Width and height in pixels of a sample of a form."""
GAP, ROW, HEADING = 18, 18, 8.8
"""Pixels between names, of a row of names, and of a character of the title."""


@dataclass(frozen=True, slots=True)
class Item:
    """Describe a name in a legend.

    `series` are the names of the series that it shows and hides, `sample` is its colour and form as SVG.
    """

    name: str
    series: tuple[str, ...]
    sample: str


def legend(figure: Figure) -> list[Item]:
    """Return each distinct series of a figure with its colour and form.

    Where that is shorter and tells all series apart, the colours come first and then the forms.
    """
    every = [one for cell in figure.cells for panel in cell.panels for one in panel.series]
    each, both = list(_each_series(every)), list(_colors_and_forms(every))
    return both if len(both) < len(each) and _apart(every) else each


def _apart(every: Sequence[Series]) -> bool:
    """Return whether a labelled colour and a form say which series it is.

    A form without a meaning has no name of its own.
    """
    labelled = {one.color for one in every if one.label}
    if any(not style.FORMS[one.mark].meaning for one in every if one.color not in labelled and one.mark != "path"):
        return False
    names: dict[tuple[str, Mark], set[str]] = {}
    for one in every:
        if one.mark != "path":
            names.setdefault((one.color if one.color in labelled else "", one.mark), set()).add(one.name)
    return all(len(several) == 1 for several in names.values())


def _each_series(every: Sequence[Series]) -> Iterator[Item]:
    """Yield an item for each name.

    The first of a colour shows and hides the paths of that colour, too.
    """
    found: dict[str, Series] = {}
    paths: dict[str, list[str]] = {}
    for one in every:
        if one.mark == "path":
            paths.setdefault(one.color, []).append(one.name)
        else:
            found.setdefault(one.name, one)
    for name, one in found.items():
        yield _item(name, one.color, one.mark, [name, *paths.pop(one.color, ())], dot=len(one.x) == 1)


def _colors_and_forms(every: Sequence[Series]) -> Iterator[Item]:
    """Yield the labelled colours, then the forms."""
    colors = {one.color: one.label for one in reversed(every) if one.label}
    for color, label in reversed(colors.items()):
        yield _item(label, color, "measure", [one.name for one in every if one.color == color])
    for mark in style.legend({one.mark for one in every if one.mark != "path"}):
        yield _item(style.FORMS[mark].meaning, "ink", mark, [one.name for one in every if one.mark == mark])


def _item(name: str, color: str, mark: Mark, series: Iterable[str], *, dot: bool = False) -> Item:
    form, stroke = style.FORMS[mark], f"s-{style.token(color)}"
    marker = form.marker or ("circle" if dot else "")
    parts: list[str] = []
    if form.dash:
        parts.append(element("path", class_=f"line {stroke} {form.dash}", d="M1,6L29,6", stroke_width=2))
    if marker:
        parts.append(element("path", class_=f"mark {marker} {stroke}", d="M15,6h.01", stroke_width=8))
        if not form.filled:
            parts.append(element("path", class_=f"mark {marker} s-paper", d="M15,6h.01", stroke_width=4.8))
    sample = element("svg", parts, viewBox=f"0 0 {SAMPLE} {HIGH}", width=SAMPLE, height=HIGH, aria_hidden="true")
    return Item(clean(name), tuple(dict.fromkeys(map(clean, series))), sample)


def heading(title: str, items: Iterable[Item], width: int) -> Drawing:
    """Return the title and the legend of a figure, in rows of at most `width` pixels."""
    lines = wrap(clean(title), int(width / HEADING))
    parts = [text(line, 2, ROW * number + 14, class_="heading") for number, line in enumerate(lines)]
    top, left = ROW * len(lines) + 4, 0.0
    for item in items:
        wide = SAMPLE + 6 + CHARACTER * len(item.name)
        if left and left + wide > width:
            top, left = top + ROW, 0.0
        parts.append(item.sample.replace("<svg ", f'<svg x="{left:.1f}" y="{top}" ', 1))
        parts.append(text(item.name, left + SAMPLE + 6, top + 10, class_="name"))
        left += wide + GAP
    return drawing(parts, width, top + (ROW if left else 0) + 6)
