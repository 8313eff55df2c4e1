"""Write SVG elements as text, every attribute and text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
            moved.append(one.svg.replace("<svg ", f'<svg x="{left}" y="{top}" overflow="visible" ', 1))
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
    """Return the `d` of a line through the points.

    Each point after the first is written as a step from the one before.
    """
    first, *others = list(_steps(points)) or [""]
    return f"M{first}l{' '.join(others)}" if others else f"M{first}"


def dots(points: Iterable[tuple[float, float]]) -> str:
    """Return the `d` of lines of no length, each place once.

    A round or square cap makes them marks that no zoom distorts.
    """
    return "".join(f"{'m' if number else 'M'}{step}h0" for number, step in enumerate(_steps(points, once=True)))


def _steps(points: Iterable[tuple[float, float]], *, once: bool = False) -> Iterator[str]:
    """Yield the first place, and the way to each next one.

    Places are rounded to tenths of a pixel before, so that no error adds up. `once` leaves out places that came before.
    """
    places: Iterable[tuple[int, int]] = [(round(10 * x), round(10 * y)) for x, y in points]
    left, top = 0, 0
    for x, y in dict.fromkeys(places) if once else places:
        across, down = _short((x - left) / 10), _short((y - top) / 10)
        yield f"{across}{down}" if down.startswith("-") else f"{across},{down}"
        left, top = x, y


def _text(value: Attribute) -> str:
    return _short(value) if isinstance(value, float) else str(value)


def _short(value: float) -> str:
    """Return a length in pixels with one digit after the point."""
    return f"{value:.1f}".removesuffix(".0")
