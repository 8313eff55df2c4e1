"""Draw extra memory, beyond inputs and output, against N."""

from __future__ import annotations

from collections.abc import Iterator

from ioaware.display.units import bytes_text, percent_text
from ioaware.report.chart import Axis, Cell, Figure, Panel, Series, cell_of, series_of
from ioaware.report.comparable_points import Points, Slice
from ioaware.report.figures.labels import beside, curve, marks, seq_len
from ioaware.report.style import ALGORITHMS

SEQ_LEN = Axis("sequence length N (tokens)", "size")
EXTRA = Axis("extra memory per head (bytes)", "bytes")
EQUAL = 1e-3
"""Largest relative difference that needs no panel of ratios."""
RATIO = Axis("÷ predicted (ratio)", "ratio", log=False)


def memory(points: Points) -> Figure | None:
    """Return one cell per head_dim, full attention.

    None where extra memory is unknown.
    """
    parts = [part for part in points.slices if not part.causal]
    equal = all(one is None or abs(one - 1) <= EQUAL for part in parts for one in _ratios(points, part))
    cells = [_cell(points, part, ratios=not equal) for part in parts]
    if not any(series.mark != "compulsory" for cell in cells for series in cell.panels[0].series):
        return None
    return Figure(
        "memory",
        "Extra memory against sequence length",
        "Theorem 1: FlashAttention adds one or two fp32 numbers a row, standard attention S and P. Measured: the peak of "
        "torch's allocator in the call, less inputs and output. Dashed, for scale: Q, K, V and O."
        + (f" Each point is within {percent_text(EQUAL)} of its prediction." if equal else ""),
        tuple(cells),
    )


def _ratios(points: Points, part: Slice) -> Iterator[float | None]:
    for config in part.configs:
        yield from map(points.extra_ratio, points.along(config, "trace", "measure", standing=("shown", "unstable")))


def _cell(points: Points, part: Slice, *, ratios: bool) -> Cell:
    upper: list[Series] = []
    lower: list[Series] = []
    for index, config in enumerate(part.configs):
        seen = points.along(config, "trace", "measure", standing=("shown", "unstable"))
        upper += curve(points, config, lambda point: point.extra_bytes, label=ALGORITHMS[config.algorithm])
        upper += marks(points, seen, seq_len, lambda point: point.extra_bytes)
        lower += () if not ratios else marks(points, seen, beside(index, len(part.configs)), points.extra_ratio)
    if part.configs:
        rows = [
            (seq_len(point), points.compulsory(point), f"Q, K, V and O\n{bytes_text(points.compulsory(point))} per head")
            for point in points.along(part.configs[-1], "predict")
        ]
        upper += series_of("Q, K, V and O", "neutral", "compulsory", rows)
    return cell_of(part.title, SEQ_LEN, Panel(EXTRA, tuple(upper)), Panel(RATIO, tuple(lower), 0.5, guide=1.0))
