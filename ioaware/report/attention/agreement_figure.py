"""Draw the report's one picture: predicted against measured bytes.

It shows every recorded point.
"""

from __future__ import annotations

from collections.abc import Sequence

from ioaware.display.units import bytes_text, times_text
from ioaware.report.attention.recorded_bytes import Compared, Kind
from ioaware.report.chart import Axis, Cell, Figure, Mark, Panel, Series, series_of

PREDICTED = Axis("predicted without a GPU (bytes)", "bytes")
MEASURED = Axis("measured by hardware counters (bytes)", "bytes")
RATIO = Axis("measured ÷ predicted", "factor")
FORMS: dict[Kind, tuple[str, Mark]] = {
    "HBM": ("standard", "measure"),
    "HBM, third-party": ("other", "measure"),
    "HBM, steady state": ("flash2", "measure"),
    "requested": ("flash1", "measure"),
    "requested, third-party": ("tutorial", "measure"),
}
"""Colour and form of each kind, in drawing order."""


def agreement_figure(points: Sequence[Compared], unpredicted: int = 0) -> Figure:
    """Return both numbers of each point on logarithmic axes, and their ratio below.

    `unpredicted`: recorded points without a prediction; the caption has their number.
    """
    ends = [float(min(one.predicted for one in points)), float(max(one.predicted for one in points))] if points else [1.0, 1.0]
    upper: list[Series] = [Series("measured = predicted", "neutral", "theory", tuple(ends), tuple(ends))]
    lower: list[Series] = []
    for kind, (color, mark) in FORMS.items():
        own = [one for one in points if one.kind == kind and one.predicted > 0]
        rows = [(float(one.predicted), float(one.measured), _describe(one)) for one in own]
        ratios = [(float(one.predicted), one.measured / one.predicted, _describe(one)) for one in own]
        upper += series_of(f"{kind} ({len(own)})", color, mark, rows)
        lower += series_of(f"{kind} ({len(own)})", color, mark, ratios)
    cell = Cell("", PREDICTED, (Panel(MEASURED, tuple(upper), 0.9), Panel(RATIO, tuple(lower), 0.42, guide=1.0)))
    return Figure(
        "agreement",
        "Predicted against measured bytes, every recorded point",
        f"{_counts(points, unpredicted)} Requested: asked of the L2; by third-party kernels, of their L1. "
        "HBM: predicted by a model of the L2; steady state: mean of many calls. Below the line caches "
        "served reads or kept writes; above it registers spilled or the L2 kept less.",
        (cell,),
        columns=1,
    )


def _counts(points: Sequence[Compared], unpredicted: int) -> str:
    """Return how many recorded points are drawn, as a sentence."""
    drawn = len({one.point for one in points})
    rest = f"; {unpredicted:,} have no prediction, or bounds alone" if unpredicted else ""
    return f"All {drawn + unpredicted:,} points recorded on an H200{rest}."


def _describe(one: Compared) -> str:
    """Return the hover text of both panels: the kernel, both numbers and their ratio."""
    numbers = f"predicted {bytes_text(one.predicted)}, measured {bytes_text(one.measured)}"
    return f"{one.name}\n{one.kind}: {numbers}, {times_text(one.measured / one.predicted, 6)}"
