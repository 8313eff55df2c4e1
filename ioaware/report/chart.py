"""Represent figures as data: cells of stacked panels with series.

They are drawn as PNG and in HTML.

Figure modules are pure functions from data to a `Figure`. `draw_png` and `draw_html` use only these types, so both pictures
show the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

Quantity = Literal["size", "bytes", "time", "ratio", "factor", "intensity", "rate", "number"]
Mark = Literal[
    "predict", "ghost", "path", "trace", "measure", "unstable", "compulsory", "bound", "ceiling", "interval", "whole", "theory",
    "in turn", "beside", "derive", "leading", "simulate", "simulated curve", "over", "second",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Axis:
    """`label` names the quantity and its unit.

    `ticks`, where given, replace the computed ones.
    """

    label: str
    quantity: Quantity
    log: bool = True
    ticks: tuple[tuple[float, str], ...] = ()
    limits: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """One curve or set of marks.

    `color` is an algorithm's name or `neutral`; `mark` is the source and sets the form.

    `hover` has one text per point, `tags` one short text beside each point. `label` is written at the right end. `spread`
    is the interval (low, high) of each y, drawn as an error bar.
    """

    name: str
    color: str
    mark: Mark
    x: tuple[float, ...]
    y: tuple[float, ...]
    hover: tuple[str, ...] = ()
    label: str = ""
    spread: tuple[tuple[float, float], ...] = ()
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or any(
            len(part) not in (0, len(self.x)) for part in (self.hover, self.spread, self.tags)
        ):
            raise ValueError(f"series {self.name!r}: x, y, hover, spread and tags differ in length")


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes.

    `guide` draws a horizontal line at the value of perfect agreement.
    """

    y: Axis
    series: tuple[Series, ...]
    height: float = 1.0
    guide: float | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """Panels one above the other that share the x axis."""

    title: str
    x: Axis
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """`name` is the file name of the PNG.

    The caption explains the figure and the source of its numbers.
    """

    name: str
    title: str
    caption: str
    cells: tuple[Cell, ...]
    columns: int = 2

    @property
    def marks(self) -> frozenset[Mark]:
        """All forms drawn in it."""
        return frozenset(series.mark for cell in self.cells for panel in cell.panels for series in panel.series)


def cell_of(title: str, x: Axis, *panels: Panel) -> Cell:
    """Return the cell without empty panels."""
    return Cell(title, x, tuple(panel for panel in panels if panel.series))


def error_bars(
    name: str, color: str, mark: Mark, rows: Sequence[tuple[float, float, tuple[float, float], str]]
) -> tuple[Series, ...]:
    """Return a tuple of one series of the rows (x, y, (low, high), hover).

    Empty where there is none.
    """
    if not rows:
        return ()
    xs, ys, ends, hovers = zip(*rows, strict=True)
    return (Series(name, color, mark, xs, ys, hovers, spread=ends),)


def series_of(
    name: str, color: str, mark: Mark, rows: Sequence[tuple[float | None, float | None, str]], label: str = ""
) -> tuple[Series, ...]:
    """Return a tuple of one series of the rows (x, y, hover) whose numbers are known.

    Empty where none is.
    """
    known = [(x, y, hover) for x, y, hover in rows if x is not None and y is not None]
    if not known:
        return ()
    xs, ys, hovers = zip(*known, strict=True)
    return (Series(name, color, mark, xs, ys, hovers if any(hovers) else (), label),)


def drawable(figure: Figure) -> Figure | None:
    """Return the figure without the points that its axes cannot show.

    None where nothing is left.

    A log axis shows positive numbers, every axis finite ones. Panels of one axis and cells without points are dropped too.
    """
    cells = (Cell(cell.title, cell.x, tuple(_drawable_panels(cell))) for cell in figure.cells)
    left = tuple(cell for cell in cells if cell.panels)
    return replace(figure, cells=left) if left else None


def _drawable_panels(cell: Cell) -> Iterator[Panel]:
    for panel in cell.panels:
        series = tuple(part for one in panel.series if (part := _drawable_series(one, cell.x, panel.y)).x)
        if series:
            yield replace(panel, series=series)


def _drawable_series(series: Series, x_axis: Axis, y_axis: Axis) -> Series:
    kept = [
        index
        for index, (x, y) in enumerate(zip(series.x, series.y, strict=True))
        if _shows(x_axis, x) and _shows(y_axis, y, *(series.spread[index] if series.spread else ()))
    ]
    if len(kept) == len(series.x):
        return series
    parts: dict[str, Any] = {
        name: tuple(part[index] for index in kept) for name in PARTS if (part := cast("tuple[Any, ...]", getattr(series, name)))
    }
    return replace(series, **parts)


PARTS = ("x", "y", "hover", "spread", "tags")


def _shows(axis: Axis, *values: float) -> bool:
    return all(math.isfinite(value) and (value > 0 or not axis.log) for value in values)
