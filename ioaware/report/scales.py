"""Compute limits and ticks of an axis once.

They serve both the PNG and the HTML.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ioaware.display.units import bytes_text, significant, size_text, time_text
from ioaware.report.chart import Axis, Cell, Panel

Tick = tuple[float, str]
MAX_TICKS = 7
NARROWEST = (math.log(6), math.log(2))
"""Smallest span of a log axis, in general and for sizes.

A few percent must not fill a panel.
"""


def limits(axis: Axis, values: Iterable[float]) -> tuple[float, float]:
    """Return the range of an axis: its data and a margin, also for one value or none."""
    if axis.limits is not None:
        return axis.limits
    known = [value for value in values if math.isfinite(value) and (value > 0 or not axis.log)]
    if axis.quantity == "ratio":
        return _ratio_limits(known)
    if not known:
        return (1.0, 10.0) if axis.log else (0.0, 1.0)
    low, high = min(known), max(known)
    if axis.log:
        span = math.log(high / low)
        margin = max(0.06 * span, 0.5 * (NARROWEST[axis.quantity == "size"] - span))
        return low / math.exp(margin), high * math.exp(margin)
    margin = 0.08 * (high - low) or 0.5 * abs(high) or 0.5
    return low - margin, high + margin


def _ratio_limits(values: Sequence[float]) -> tuple[float, float]:
    """Return a range around 1, at least 0.1 % each way.

    Noise below that must not look like structure.
    """
    below = max([1 - value for value in values], default=0.0)
    above = max([value - 1 for value in values], default=0.0)
    wide = max(below, above, 0.001)
    return 1 - max(1.2 * below, 0.35 * wide, 0.001), 1 + max(1.2 * above, 0.35 * wide, 0.001)


def panel_limits(panel: Panel) -> tuple[float, float]:
    """Return the y range of a panel, its guide included."""
    values = [y for series in panel.series for y in (*series.y, *(end for ends in series.spread for end in ends))]
    return limits(panel.y, [*values, *([] if panel.guide is None else [panel.guide])])


def cell_limits(cell: Cell) -> tuple[float, float]:
    """Return the x range that the panels of a cell share."""
    return limits(cell.x, [x for panel in cell.panels for series in panel.series for x in series.x])


def panel_ticks(panel: Panel) -> tuple[Tick, ...]:
    """Return the labels of a panel's y axis."""
    return ticks(panel.y, *panel_limits(panel))


def ticks(axis: Axis, low: float, high: float) -> tuple[Tick, ...]:
    """Return tick positions and labels.

    They are powers of two for sizes, decades for log axes, else round steps.
    """
    if axis.ticks:
        return tuple(tick for tick in axis.ticks if low <= tick[0] <= high)
    if axis.quantity == "size" and axis.log:
        places: list[float] = _powers(2, low, high)
    elif axis.log:
        places = _decades(low, high)
    else:
        places = _steps(low, high)
    return tuple((place, _label(axis, place)) for place in places)


def _powers(base: int, low: float, high: float) -> list[float]:
    first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / MAX_TICKS))
    return [float(base) ** power for power in range(first, last + 1) if (power - last) % stride == 0]


def _decades(low: float, high: float) -> list[float]:
    """Return decades, or 1-2-5 steps where there are fewer than three of them."""
    tens = _powers(10, low, high)
    if len(tens) >= 3:
        return tens
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    fine = [digit * 10.0**power for power in range(first, last + 1) for digit in (1, 2, 5)]
    inside = [place for place in fine if low <= place <= high]
    return inside if len(inside) >= 2 else _steps(low, high)


def _steps(low: float, high: float) -> list[float]:
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(digit * power for digit in (1, 2, 2.5, 5, 10) if digit * power >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def _label(axis: Axis, value: float) -> str:
    match axis.quantity:
        case "size":
            return size_text(round(value))
        case "bytes":
            return bytes_text(value, 3)
        case "time":
            return time_text(value)
        case "factor":
            return f"{significant(value)}×"
        case "ratio":
            return f"{value:.6f}".rstrip("0").rstrip(".")
        case "intensity" | "rate" | "number":
            return significant(value)


def place(axis: Axis, value: float, low: float, high: float) -> float:
    """Return the relative position (0 to 1) of a value on an axis from low to high."""
    return math.log(value / low) / math.log(high / low) if axis.log else (value - low) / (high - low)
