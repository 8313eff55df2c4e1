"""Draw the roofline of measured points under the limits of HBM and tensor cores."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ioaware.display.units import significant, size_text
from ioaware.report.chart import Axis, Cell, Figure, Panel, Series, series_of
from ioaware.report.comparable_points import Point, Points, Slice
from ioaware.report.figures.labels import describe, marks, named, point_flops, rate_tflops
from ioaware.report.style import ALGORITHMS

RATE = Axis("rate (TFLOP/s)", "rate")
HBM_INTENSITY = Axis("arithmetic intensity (FLOP per HBM byte)", "intensity")


@dataclass(frozen=True, slots=True)
class Roofs:
    """A machine's limits for one dtype. `source` is the source of the numbers."""

    machine: str
    hbm_bytes_per_s: float
    peak_flops_per_s: float
    source: str


def roofline(points: Points, roofs: Roofs | None) -> Figure | None:
    """Return one cell per head_dim and mask with measured points; None without points.

    Without known roofs the points stand alone.
    """
    cells = [cell for part in points.slices for cell in _cell(points, part, roofs)]
    if not cells:
        return None
    limit = f"Roofs of {roofs.machine}: {roofs.source}." if roofs else "The machine's limits are unknown, so no roof is drawn."
    return Figure(
        "roofline",
        "Roofline: FLOP/s against FLOP per HBM byte, measured",
        "On the slope HBM bytes bind; right of the ridge matmuls and exponentials do. FlashAttention-1 runs a head on one SM: "
        f"few heads leave SMs idle. {limit}",
        tuple(cells),
    )


def _cell(points: Points, part: Slice, roofs: Roofs | None) -> list[Cell]:
    series: list[Series] = []
    for config in part.configs:
        seen = points.along(config, "measure")
        series += marks(
            points, seen, lambda point: intensity(points, point), lambda point: rate_tflops(points, point), timed=True
        )
        series += _path(points, seen)
    if not series:
        return []
    if roofs is not None:
        series += _roof(roofs, [x for one in series for x in one.x])
    return [Cell(part.title, HBM_INTENSITY, (Panel(RATE, tuple(series), 1.35),))]


def intensity(points: Points, point: Point) -> float | None:
    """Return FLOP per byte between HBM and the L2."""
    flops, moved = point_flops(points, point), point.hbm_bytes
    return None if flops is None or not moved else flops / (moved * point.num_heads)


def _path(points: Points, seen: list[Point]) -> list[Series]:
    """Return a thin line from the smallest N to the largest.

    The smallest is labelled with N, the largest with the algorithm.
    """
    rows = [(intensity(points, point), rate_tflops(points, point), describe(points, point)) for point in seen]
    name = seen[0].config.algorithm if seen else ""
    drawn = series_of(named(name, "path"), name, "path", rows, ALGORITHMS.get(name, name))
    known = [point.seq_len for point, (x, y, _) in zip(seen, rows, strict=True) if x is not None and y is not None]
    return [
        replace(series, tags=(f"N={size_text(known[0])}", *("" for _ in known[1:]))) if _long(series) else series
        for series in drawn
    ]


def _long(series: Series) -> bool:
    """Return whether its ends are far enough apart for two labels."""
    return max(series.x) > 3 * min(series.x)


def _roof(roofs: Roofs, intensities: list[float]) -> tuple[Series, ...]:
    """Return min(peak, bandwidth * intensity) over the points and the ridge."""
    ridge = roofs.peak_flops_per_s / roofs.hbm_bytes_per_s
    low, high = min([*intensities, ridge / 8]) / 1.5, max([*intensities, ridge * 2]) * 1.5
    places = (low, (low * ridge**4) ** (1 / 5), ridge, high)
    rates = [min(roofs.peak_flops_per_s, roofs.hbm_bytes_per_s * x) / 1e12 for x in places]
    tags = ("", f"HBM {significant(roofs.hbm_bytes_per_s / 1e12)} TB/s", "", f"tensor cores {significant(rates[-1])} TFLOP/s")
    return (Series(f"limits of {roofs.machine}", "neutral", "ceiling", places, tuple(rates), tags=tags),)
