"""Draw a `Figure` as a PNG with matplotlib, on white.

matplotlib's types are partial: its figures and axes are `Any` here, and no other module uses it.
"""

from __future__ import annotations

import io
import warnings
from typing import Any

from ioaware.report import style
from ioaware.report.chart import Cell, Figure, Mark, Panel, Series
from ioaware.report.scales import cell_limits, end_labels, panel_limits, panel_ticks, ticks

DPI = 160
# Inches. Positions are computed, because a layout engine takes seconds for a figure of eight cells.
CELL_WIDTH, LONE_WIDTH, PANEL_HEIGHT, PANEL_GAP = 5.0, 8.0, 2.2, 0.14  # LONE_WIDTH: of a cell that has its row to itself
HEAD, CELL_TITLE, X_LABELS, MARGIN = 0.78, 0.34, 0.62, 0.14
CHARACTER = 0.066  # the mean width of one, at the size of labels
RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "text.parse_math": False,  # a GPU's or kernel's name may hold a dollar sign
    "text.color": style.light("ink"),
    "axes.edgecolor": style.light("muted"),
    "axes.labelcolor": style.light("muted"),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": style.light("grid"),
    "grid.linewidth": 0.7,
    "xtick.color": style.light("muted"),
    "ytick.color": style.light("muted"),
    "xtick.minor.bottom": False,
    "ytick.minor.left": False,
}


def draw_png(figure: Figure) -> bytes:
    """Return the figure as PNG bytes; equal figures give equal bytes."""
    from matplotlib import rc_context  # pyright: ignore[reportUnknownVariableType]
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    columns = max(1, min(figure.columns, len(figure.cells)))
    rows = [figure.cells[first : first + columns] for first in range(0, len(figure.cells), columns)]
    heights = [max(_height(cell) for cell in row) for row in rows]
    cell_width = CELL_WIDTH if columns > 1 else LONE_WIDTH
    width, height = cell_width * columns + MARGIN, HEAD + sum(heights)
    with rc_context(RC), warnings.catch_warnings():  # pyright: ignore[reportArgumentType]
        warnings.simplefilter("ignore", UserWarning)  # a name from outside may hold glyphs that the font lacks: boxes
        canvas: Any = Canvas(figsize=(width, height), dpi=DPI, facecolor="white")
        FigureCanvasAgg(canvas)
        _draw_head(canvas, figure, height)
        top = height - HEAD
        for row, row_height in zip(rows, heights, strict=True):
            for column, cell in enumerate(row):
                _draw_cell(canvas, cell, (MARGIN + column * cell_width, top, cell_width), (width, height))
            top -= row_height
        buffer = io.BytesIO()
        canvas.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _height(cell: Cell) -> float:
    gaps = PANEL_GAP * (len(cell.panels) - 1)
    return CELL_TITLE + X_LABELS + gaps + sum(PANEL_HEIGHT * panel.height for panel in cell.panels)


def _draw_head(canvas: Any, figure: Figure, height: float) -> None:
    """Draw the title and the meaning of each form.

    Colours are named at the curves' ends.
    """
    from matplotlib.lines import Line2D

    left = MARGIN / canvas.get_figwidth()
    canvas.text(left, 1 - 0.14 / height, figure.title, ha="left", va="top", fontsize=11.5, fontweight="bold")
    handles = [Line2D([], [], label=style.FORMS[mark].meaning, **_form("ink", mark)) for mark in style.legend(figure.marks)]
    if handles:
        canvas.legend(handles=handles, loc="upper left", bbox_to_anchor=(left, 1 - 0.4 / height), ncols=7, frameon=False,
                      fontsize=8, handlelength=2.0, handletextpad=0.6, columnspacing=1.5, borderaxespad=0)  # fmt: skip


def _form(color: str, mark: Mark) -> dict[str, Any]:
    hue, form = style.light(color), style.FORMS[mark]
    return {
        "color": hue,
        "linestyle": style.MATPLOTLIB_DASHES[form.dash],
        "linewidth": form.width,
        "marker": style.MATPLOTLIB_MARKERS[form.marker],
        "markersize": form.size,
        "markerfacecolor": hue if form.filled else "none",
        "markeredgewidth": 1.2 if not form.filled else 0,
    }


def _draw_cell(canvas: Any, cell: Cell, place: tuple[float, float, float], size: tuple[float, float]) -> None:
    """Draw a cell at `place` (left, top, width) on a canvas of `size` (width, height), inches from the lower left."""
    (left, top, cell_width), (width, height) = place, size
    canvas.text(left / width, (top - 0.08) / height, cell.title, ha="left", va="top", fontsize=9.5, fontweight="bold")
    top -= CELL_TITLE
    low, high = cell_limits(cell)
    places = ticks(cell.x, low, high)
    margin_left, margin_right = _margins(cell, cell_width)
    for index, panel in enumerate(cell.panels):
        panel_height = PANEL_HEIGHT * panel.height
        top -= panel_height
        ax = canvas.add_axes(
            (
                (left + margin_left) / width,
                top / height,
                (cell_width - margin_left - margin_right) / width,
                panel_height / height,
            )
        )
        last = index == len(cell.panels) - 1
        if cell.x.log:
            ax.set_xscale("log")
        _draw_panel(ax, cell, panel)
        ax.set_xlim(low, high)
        ax.set_xticks([place for place, _ in places], [label if last else "" for _, label in places])
        ax.minorticks_off()
        if last:
            ax.set_xlabel(cell.x.label)
        top -= PANEL_GAP


def _margins(cell: Cell, width: float) -> tuple[float, float]:
    """Return the space for tick labels and for the curves' names, at most half of the cell."""
    labels = [len(label) for panel in cell.panels for _, label in panel_ticks(panel)]
    names = [len(series.label) for panel in cell.panels for series in panel.series]
    left, right = 0.42 + CHARACTER * max(labels, default=0), 0.2 + 1.12 * CHARACTER * max(names, default=0)
    return min(left, 0.5 * width), min(right, 0.3 * width)


def _draw_panel(ax: Any, cell: Cell, panel: Panel) -> None:
    if panel.y.log:
        ax.set_yscale("log")
    low, high = panel_limits(panel)
    ax.set_ylim(low, high)
    places = panel_ticks(panel)
    ax.set_yticks([place for place, _ in places], [label for _, label in places])
    ax.set_ylabel(panel.y.label)
    if panel.guide is not None:
        ax.axhline(panel.guide, color=style.light("muted"), linewidth=0.9, zorder=1)
    for series in panel.series:
        _draw_series(ax, series)
    for x, text_y, label, color in end_labels(cell, panel):
        ax.text(x, text_y, f"  {label}", color=style.light(color), fontsize=7.8, fontweight="bold", va="center",
                clip_on=False, zorder=2.6, path_effects=_over_lines())  # fmt: skip


def _draw_series(ax: Any, series: Series) -> None:
    if series.spread:
        ax.hlines(
            series.y,
            [low for low, _ in series.spread],
            [high for _, high in series.spread],
            color=style.light(series.color),
            linewidth=2.2,
        )
    ax.plot(series.x, series.y, zorder=3 if style.FORMS[series.mark].marker else 2, **_form(series.color, series.mark))
    left = series.mark == "ceiling"
    for x, y, tag in zip(series.x, series.y, series.tags, strict=False):
        ax.annotate(tag, (x, y), (-4, 4) if left else (0, -5), textcoords="offset points", ha="right" if left else "center",
                    va="bottom" if left else "top", color=style.light(series.color), fontsize=7.4,
                    zorder=2.6, path_effects=_over_lines())  # fmt: skip


def _over_lines() -> list[Any]:
    """Give letters a white edge over lines. Marks, with zorder 3, stay whole."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2.4, foreground="white")]
