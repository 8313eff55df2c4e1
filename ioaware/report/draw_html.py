"""Draw a `Figure` for the HTML report as plotly's JSON, one graph a cell.

Colours are tokens (`@flash2`) that the page's script replaces by the theme's CSS properties.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from typing import Any

from ioaware.report import style
from ioaware.report.chart import Axis, Cell, Panel, Series
from ioaware.report.scales import Tick, cell_limits, end_labels, panel_limits, panel_ticks, ticks

PANEL_PIXELS, AXIS_PIXELS, LINE_PIXELS, GAP_PIXELS = 230, 46, 14, 16
ON_A_ROOF = {"xanchor": "right", "yanchor": "bottom"}
BELOW_A_POINT = {"yanchor": "top", "yshift": -4}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def draw_html(cell: Cell) -> dict[str, Any]:
    """Return the cell as plotly's `data` and `layout`. plotly reads texts as HTML, so each is escaped here."""
    heights = [PANEL_PIXELS * panel.height for panel in cell.panels]
    inner = sum(heights) + GAP_PIXELS * (len(heights) - 1)
    low, high = cell_limits(cell)
    labels = max((len(series.label) for panel in cell.panels for series in panel.series), default=0)
    bottom = AXIS_PIXELS + LINE_PIXELS * max((label.count("\n") for _, label in ticks(cell.x, low, high)), default=0)
    layout: dict[str, Any] = {
        "height": round(inner + bottom + 8),
        "margin": {"l": 68, "r": 14 + 7 * labels, "t": 8, "b": bottom},
        "paper_bgcolor": "@paper",
        "plot_bgcolor": "@paper",
        "font": {"family": FONT, "size": 11, "color": "@muted"},
        "hoverlabel": {"bgcolor": "@paper", "bordercolor": "@muted", "align": "left", "font": {"color": "@ink", "size": 12}},
        "hovermode": "closest",
        "showlegend": False,
        "dragmode": False,
        "annotations": [],
        "shapes": [],
    }
    data: list[dict[str, Any]] = []
    top = inner
    for index, (panel, height) in enumerate(zip(cell.panels, heights, strict=True)):
        suffix = "" if index == 0 else str(index + 1)
        last = index == len(cell.panels) - 1
        x_axis = _axis(cell.x, low, high, ticks(cell.x, low, high)) | {"anchor": f"y{suffix}", "showticklabels": last}
        if not last:
            del x_axis["title"]
        if index:
            x_axis["matches"] = "x"
        y_low, y_high = panel_limits(panel)
        layout[f"xaxis{suffix}"] = x_axis
        layout[f"yaxis{suffix}"] = _axis(panel.y, y_low, y_high, panel_ticks(panel)) | {
            "anchor": f"x{suffix}",
            "domain": [max(0.0, (top - height) / inner), top / inner],
        }
        if panel.guide is not None:
            layout["shapes"].append(_guide(panel.guide, suffix))
        layout["annotations"] += _labels(cell, panel, suffix)
        data += [_trace(series, suffix) for series in panel.series]
        top -= height + GAP_PIXELS
    return {"data": data, "layout": layout}


def _axis(axis: Axis, low: float, high: float, places: tuple[Tick, ...]) -> dict[str, Any]:
    return {
        "type": "log" if axis.log else "linear",
        "range": [math.log10(low), math.log10(high)] if axis.log else [low, high],
        "tickmode": "array",
        "tickvals": [place for place, _ in places],
        "ticktext": [_escaped(label).replace("\n", "<br>") for _, label in places],
        "title": {"text": _escaped(axis.label), "standoff": 8, "font": {"size": 11, "color": "@muted"}},
        "gridcolor": "@grid",
        "linecolor": "@muted",
        "showline": True,
        "zeroline": False,
        "automargin": True,
        "fixedrange": True,
    }


def _guide(value: float, suffix: str) -> dict[str, Any]:
    place = {"x0": 0, "x1": 1, "xref": f"x{suffix} domain", "y0": value, "y1": value, "yref": f"y{suffix}"}
    return {"type": "line", "layer": "below", "line": {"color": "@muted", "width": 1}, **place}


def _labels(cell: Cell, panel: Panel, suffix: str) -> list[dict[str, Any]]:
    """Return the curves' names and the points' tags.

    Plotly takes the logarithm of a position on a log axis.
    """

    def written(x: float, y: float, text: str, color: str, where: Mapping[str, object], size: int) -> dict[str, Any]:
        place = {"x": math.log10(x) if cell.x.log else x, "y": math.log10(y) if panel.y.log else y}
        font = {"color": f"@{style.token(color)}", "size": size}
        text_of = {"text": text, "font": font, "showarrow": False, "bgcolor": "@paper", "borderpad": 0}  # ends lines behind it
        return {**place, "xref": f"x{suffix}", "yref": f"y{suffix}", **text_of, **where}

    names = [
        written(x, y, f"<b>{_escaped(label)}</b>", color, {"xanchor": "left", "xshift": 7}, 11)
        for x, y, label, color in end_labels(cell, panel)
    ]
    tags = [
        written(x, y, _escaped(tag), series.color, ON_A_ROOF if series.mark == "ceiling" else BELOW_A_POINT, 10)
        for series in panel.series
        for x, y, tag in zip(series.x, series.y, series.tags, strict=False)
        if tag
    ]
    return names + tags


def _trace(series: Series, suffix: str) -> dict[str, Any]:
    form, hue = style.FORMS[series.mark], f"@{style.token(series.color)}"
    trace: dict[str, Any] = {
        "type": "scatter",
        "name": _escaped(series.name),
        "x": [_short(x) for x in series.x],
        "y": [_short(y) for y in series.y],
        "xaxis": f"x{suffix}",
        "yaxis": f"y{suffix}",
        "mode": "+".join(part for part, drawn in (("lines", form.dash), ("markers", form.marker)) if drawn),
        "cliponaxis": False,
    }
    if form.dash:
        trace["line"] = {"color": hue, "width": form.width * 1.3, "dash": form.dash}
    if form.marker:
        symbol = style.PLOTLY_MARKERS[form.marker] + ("" if form.filled else "-open")
        trace["marker"] = {
            "color": hue,
            "symbol": symbol,
            "size": form.size * 1.35,
            "line": {"color": hue, "width": 0 if form.filled else 1.6},
        }
    if series.spread:
        trace["error_x"] = {
            "type": "data",
            "symmetric": False,
            "array": [_short(high - x) for x, (_, high) in zip(series.x, series.spread, strict=True)],
            "arrayminus": [_short(x - low) for x, (low, _) in zip(series.x, series.spread, strict=True)],
            "color": hue,
            "thickness": 2.2,
            "width": 0,
        }
    if series.hover and series.mark not in ("ghost", "path"):
        trace["text"] = [_escaped(text).replace("\n", "<br>") for text in series.hover]
        trace["hovertemplate"] = "%{text}<extra></extra>"
    else:
        trace["hoverinfo"] = "skip"
    return trace


def _short(value: float) -> float:
    """Round to six digits, more than a screen resolves, for a third of the size."""
    return float(f"{value:.9g}")


def _escaped(text: str) -> str:
    """Escape a text, of which plotly draws a subset of HTML (links included)."""
    return html.escape(text, quote=True)
