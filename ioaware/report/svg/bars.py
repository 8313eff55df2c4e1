"""Draw horizontal bars as SVG: a name above each bar, its value behind it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ioaware.display.text import clean
from ioaware.report.svg.elements import Drawing, drawing, element, path, text
from ioaware.report.svg.plot import CHARACTER

ROW, THICK = 44, 16


@dataclass(frozen=True, slots=True)
class Bar:
    """Describe one bar.

    `value` is in the figure's unit or None where it is unknown, `shown` its text, `interval` its bounds, `between` their text,
    which stands behind the name.
    """

    name: str
    value: float | None
    shown: str
    color: str = "neutral"
    interval: tuple[float, float] | None = None
    between: str = ""

    @property
    def label(self) -> str:
        """Return what is written above the bar."""
        return f"{self.name}: {self.between}" if self.between else self.name


@dataclass(frozen=True, slots=True)
class BarFigure:
    """Bars of one unit, on one scale from zero. `name` is the file name of the PNG."""

    name: str
    title: str
    caption: str
    bars: tuple[Bar, ...]


def draw_bars(figure: BarFigure, width: int) -> Drawing:
    """Return the SVG of the bars at a width in pixels."""
    room = width - 16 - CHARACTER * max((len(bar.shown) for bar in figure.bars), default=0)
    ends = [end for bar in figure.bars for end in (bar.value, *(bar.interval or ())) if end is not None]
    unit = room / max([*ends, 1e-300])
    most = int(width / CHARACTER)
    rows = [part for number, bar in enumerate(figure.bars) for part in _bar(bar, number * ROW, unit, most)]
    said = clean("; ".join(f"{bar.label}: {bar.shown}" for bar in figure.bars), 4000)
    return drawing(
        rows, width, ROW * len(figure.bars) + 4, class_="bars", role="img", aria_label=f"{clean(figure.title)}. {said}"
    )


def _short(name: str, most: int) -> str:
    """Return a name of at most so many characters, its middle left out."""
    half = (most - 1) // 2
    return name if len(name) <= most else f"{name[: most - 1 - half]}…{name[-half:]}"


def _bar(bar: Bar, top: float, unit: float, most: int) -> Iterator[str]:
    yield text(_short(bar.label, most), 0, top + 14, class_="name")
    length = 0.0 if bar.value is None else max(bar.value * unit, 1.0)
    if bar.value is not None:
        yield element("rect", x=0, y=top + 20, width=length, height=THICK, rx=2, class_=f"f-{bar.color}")
    furthest = length
    if bar.interval is not None:
        low, high = (end * unit for end in bar.interval)
        furthest = max(length, high)
        middle = top + 20 + THICK / 2
        yield element("path", class_="line s-ink", d=path([(low, middle), (high, middle)]), stroke_width=1.6)
        for end in (low, high):
            yield element("path", class_="line s-ink", d=path([(end, middle - 5), (end, middle + 5)]), stroke_width=1.6)
    yield text(bar.shown, furthest + 8, top + 20 + THICK - 3, class_="value")
