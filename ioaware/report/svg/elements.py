"""Write SVG elements as text, every attribute and text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from ioaware.display.text import clean

Attribute = str | int | float | None


@dataclass(frozen=True, slots=True)
class Drawing:
    """An SVG element with its size in pixels."""

    svg: str
    width: int
    height: int


def drawing(children: Iterable[str], width: int, height: int, **attributes: Attribute) -> Drawing:
    """Return elements as a picture of that size."""
    outer = element(
        "svg", children, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}", width=width, height=height,
        **attributes,
    )  # fmt: skip
    return Drawing(outer, width, height)


def tiled(drawings: Sequence[Drawing], columns: int = 1) -> Drawing:
    """Return pictures as one, in rows of `columns`."""
    rows = [drawings[first : first + columns] for first in range(0, len(drawings), columns)]
    moved: list[str] = []
    top = 0
    for row in rows:
        left = 0
        for one in row:
            moved.append(one.svg.replace("<svg ", f'<svg x="{left}" y="{top}" ', 1))
            left += one.width
        top += max(one.height for one in row)
    return drawing(moved, max(sum(one.width for one in row) for row in rows), top)


def element(name: str, children: Iterable[str] = (), **attributes: Attribute) -> str:
    """Return an element.

    `children` are elements; in names of attributes `_` becomes `-`, and a final one is dropped.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(children)
    return f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>"


def text(words: str, x: float, y: float, anchor: str = "start", **attributes: Attribute) -> str:
    """Return a text element, its words cleaned and escaped."""
    return element("text", [escape(clean(words))], x=x, y=y, text_anchor=anchor, **attributes)


def path(points: Iterable[tuple[float, float]]) -> str:
    """Return the `d` of a line through the points."""
    return "M" + "L".join(f"{_short(x)},{_short(y)}" for x, y in points)


def dots(points: Iterable[tuple[float, float]]) -> str:
    """Return the `d` of lines of no length, each place once.

    A round or square cap makes them marks that no zoom distorts.
    """
    return "".join(dict.fromkeys(f"M{_short(x)},{_short(y)}h.01" for x, y in points))


def _text(value: Attribute) -> str:
    return _short(value) if isinstance(value, float) else str(value)


def _short(value: float) -> str:
    """Return a length in pixels with one digit after the point."""
    return f"{value:.1f}".removesuffix(".0")
