"""Draws a `Figure` as a PNG with matplotlib: on white, because it is shown on pages this project does not style."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from ioaware.report import style
from ioaware.report.chart import Cell, Figure, Panel, Series
from ioaware.report.scales import end_labels, limits, panel_limits, ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DPI = 160
CELL_WIDTH, PANEL_HEIGHT, HEADROOM = 4.7, 2.55, 0.62  # inches
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
    """The figure as PNG bytes; equal figures give equal bytes."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    columns = min(figure.columns, len(figure.cells)) or 1
    rows = -(-len(figure.cells) // columns)
    row_heights = [max(_height(cell) for cell in figure.cells[row * columns : (row + 1) * columns]) for row in range(rows)]
    with rc_context(RC):
        canvas = Canvas(figsize=(CELL_WIDTH * columns, sum(row_heights) + HEADROOM), dpi=DPI, facecolor="white", layout="constrained")
        FigureCanvasAgg(canvas)
        canvas.get_layout_engine().set(w_pad=0.12, h_pad=0.06, wspace=0.02, hspace=0.02)  # pyright: ignore[reportOptionalMemberAccess, reportUnknownMemberType, reportCallIssue]
        head, body = canvas.subfigures(2, 1, height_ratios=[HEADROOM, sum(row_heights)])
        _draw_head(head, figure)
        grid = body.subfigures(rows, columns, height_ratios=row_heights, squeeze=False)
        for index, cell in enumerate(figure.cells):
            _draw_cell(grid[index // columns][index % columns], cell)
        buffer = io.BytesIO()
        canvas.savefig(buffer, format="png", metadata={"Software": None})
    return _smaller(buffer.getvalue())


def _height(cell: Cell) -> float:
    return 0.55 + PANEL_HEIGHT * sum(panel.height for panel in cell.panels)


def _smaller(png: bytes) -> bytes:
    """The same picture with a palette of 256 colours: a third of the bytes, and no visible difference in line art."""
    from PIL import Image

    buffer = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        image.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _draw_head(head: Any, figure: Figure) -> None:
    from matplotlib.lines import Line2D

    head.suptitle(figure.title, x=0.012, y=0.97, ha="left", va="top", fontsize=11, fontweight="bold")
    handles = [Line2D([], [], label=label, **_form(color, mark)) for label, color, mark in legend(figure)]
    if handles:
        head.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.0, -0.04), ncols=len(handles), frameon=False, fontsize=8,
                    handlelength=1.9, columnspacing=1.4, borderaxespad=0.2)  # fmt: skip


def legend(figure: Figure) -> list[tuple[str, str, Any]]:
    """(meaning, colour, mark): the algorithms by colour, then the sources by form in ink. Both keys, each entry once."""
    algorithms = [name for name in style.ALGORITHMS if any(color == name for color, _ in figure.key)]
    marks = dict.fromkeys(mark for _, mark in figure.key)
    entries: list[tuple[str, str, Any]] = [(style.ALGORITHMS[name], name, "swatch") for name in algorithms]
    return entries + [(form.meaning, "ink", mark) for mark, form in style.FORMS.items() if mark in marks and form.meaning]


def _form(color: str, mark: Any) -> dict[str, Any]:
    hue = style.light(color)
    if mark == "swatch":
        return {"color": hue, "linewidth": 4, "solid_capstyle": "butt"}
    form = style.FORMS[mark]
    return {
        "color": hue,
        "linestyle": style.MATPLOTLIB_DASHES[form.dash],
        "linewidth": form.width,
        "marker": style.MATPLOTLIB_MARKERS[form.marker],
        "markersize": form.size,
        "markerfacecolor": hue if form.filled else "none",
        "markeredgewidth": 1.2 if not form.filled or form.marker == "tick" else 0,
    }


def _draw_cell(area: Any, cell: Cell) -> None:
    area.suptitle(cell.title, x=0.02, ha="left", fontsize=9.5, fontweight="bold")
    axes = area.subplots(len(cell.panels), 1, sharex=True, squeeze=False, height_ratios=[panel.height for panel in cell.panels])
    low, high = limits(cell.x, [x for panel in cell.panels for series in panel.series for x in series.x])
    for panel, (ax,) in zip(cell.panels, axes, strict=True):
        _draw_panel(ax, panel)
        if cell.x.log:
            ax.set_xscale("log")
        ax.set_xlim(low, high)
        places = ticks(cell.x, low, high)
        ax.set_xticks([place for place, _ in places], [label for _, label in places])
        ax.minorticks_off()
    axes[-1][0].set_xlabel(cell.x.label)


def _draw_panel(ax: Axes, panel: Panel) -> None:
    if panel.y.log:
        ax.set_yscale("log")
    low, high = panel_limits(panel)
    ax.set_ylim(low, high)
    places = ticks(panel.y, low, high)
    ax.set_yticks([place for place, _ in places], [label for _, label in places])
    ax.set_ylabel(panel.y.label)
    if panel.guide is not None:
        ax.axhline(panel.guide, color=style.light("muted"), linewidth=0.9, zorder=1)
    for series in panel.series:
        _draw_series(ax, series)
    for x, _, text_y, label, color in end_labels(panel):
        ax.text(x, text_y, f"  {label}", color=style.light(color), fontsize=7.8, fontweight="bold", va="center", clip_on=False)


def _draw_series(ax: Axes, series: Series) -> None:
    if series.spread:
        ax.hlines(series.y, [low for low, _ in series.spread], [high for _, high in series.spread], color=style.light(series.color), linewidth=2.2)
    ax.plot(series.x, series.y, zorder=3 if style.FORMS[series.mark].marker else 2, **_form(series.color, series.mark))
