"""Make series of points and their labels, shared by every figure over points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ioaware.display.units import bytes_text, significant, time_text, times_text
from ioaware.measurement.time_bounds import with_bounds
from ioaware.report.chart import Mark, Series, series_of
from ioaware.report.comparable_points import Config, Point, Points
from ioaware.report.style import ALGORITHMS
from ioaware.simulation.accuracy import point_key

BELOW_COMPULSORY = "HBM below compulsory: when the kernel ended, the rest of its writes was in the L2."
WORDS: Mapping[str, str] = {
    "predict": "predicted",
    "derive": "derived",
    "simulate": "simulated",
    "trace": "traced",
    "measure": "measured",
    "unstable": "throttled or unstable",
    "simulated curve": "simulated",
    "path": "path",
}
"""Words for the sources of numbers in the names of series."""
Value = Callable[[Point], float | None]
Simulated = Mapping[str, int]
"""Simulated HBM bytes of all heads, by `point_key`."""


def curve(points: Points, config: Config, value: Value, *, mark: Mark = "predict", label: str = "") -> tuple[Series, ...]:
    """Return the closed form over N."""
    rows = [(point.seq_len, value(point), describe(points, point)) for point in points.along(config, "predict")]
    return series_of(named(config.algorithm, mark), config.algorithm, mark, rows, label)


def named(algorithm: str, mark: Mark) -> str:
    """Return the name of a series: its algorithm and the source of its numbers."""
    return f"{ALGORITHMS.get(algorithm, algorithm)}, {WORDS[mark]}"


def marks(points: Points, seen: Iterable[Point], x: Value, y: Value, *, label: str = "", timed: bool = False) -> list[Series]:
    """Return traced and measured points of one algorithm.

    There is one series per source, with unstable points apart.

    `timed`: times are drawn, so throttled points are apart as well.
    """
    groups: dict[Mark, list[Point]] = {"trace": [], "measure": [], "unstable": []}
    for point in seen:
        if point.source in ("trace", "measure"):
            apart = point.standing == "unstable" or (timed and point.result.status != "ok")
            groups["unstable" if apart else "measure" if point.source == "measure" else "trace"].append(point)
    return [
        series
        for mark, group in groups.items()
        for series in series_of(
            named(group[0].config.algorithm, mark) if group else mark,
            group[0].config.algorithm if group else "neutral",
            mark,
            [(x(point), y(point), describe(points, point)) for point in group],
            label if mark == "measure" else "",
        )
    ]


def replayed(seen: Iterable[Point], x: Value, simulated: Simulated, name: str) -> tuple[Series, ...]:
    """Return the simulated HBM bytes of measured points as a curve.

    The points are those of one algorithm.
    """
    rows: dict[float | None, tuple[float | None, float | None, str]] = {}
    for point in (one for one in seen if one.source == "measure"):
        moved = simulated_per_head(point, simulated)
        said = f"{ALGORITHMS[name]}, simulated at N = {point.seq_len:,}\nHBM {bytes_text(moved)} per head"
        rows[x(point)] = (x(point), moved, said)
    return series_of(
        named(name, "simulated curve"), name, "simulated curve", [rows[place] for place in sorted(rows, key=lambda x: x or 0)]
    )


def simulated_per_head(point: Point, simulated: Simulated) -> float | None:
    """Return the simulated HBM bytes of a recorded point, per head."""
    return point.per_head(simulated.get(point_key(point.config.algorithm, point.result.params)))


def seq_len(point: Point) -> float:
    """Return N."""
    return float(point.seq_len)


def beside(index: int, count: int) -> Value:
    """Return N shifted by a few percent.

    Equal values of several algorithms would otherwise hide each other.
    """
    shift = 1.09 ** (index - (count - 1) / 2)
    return lambda point: point.seq_len * shift


def over_compulsory(points: Points, point: Point) -> float | None:
    """Return the point's HBM bytes over its compulsory bytes."""
    floor = points.compulsory(point)
    return None if point.hbm_bytes is None or not floor else point.hbm_bytes / floor


def rate_tflops(points: Points, point: Point) -> float | None:
    """Return TFLOP/s of a point with known clocks.

    It comes from the point's own FLOPs, or else the prediction's.
    """
    flops = point_flops(points, point)
    return None if flops is None or not point.time_ns or point.standing != "shown" else flops / point.time_ns / 1e3


def point_flops(points: Points, point: Point) -> float | None:
    """Return the FLOPs of the whole call."""
    predicted = points.prediction(point)
    if predicted is not None and predicted.result.flops is not None:
        return predicted.result.flops / predicted.num_heads * point.num_heads
    return point.result.flops


def describe(points: Points, point: Point) -> str:
    """Return the hover text of a point, one fact a line."""
    config, result = point.config, point.result
    mask = "causal" if config.causal else "full"
    lines = [
        f"{ALGORITHMS[config.algorithm]}, {result.source}",
        f"N = {point.seq_len:,}, d = {config.head_dim}, {mask}, blocks {config.blocks}, {_heads(point.num_heads)}",
    ]
    if point.requested_bytes is not None:
        ratio = points.requested_ratio(point) if result.source != "predict" else None
        lines.append(
            f"requested {bytes_text(point.requested_bytes)} per head" + (f", {ratio:.5f} of predicted" if ratio else "")
        )
    if point.hbm_bytes is not None:
        excess = over_compulsory(points, point)
        lines.append(f"HBM {bytes_text(point.hbm_bytes)} per head" + (f", {times_text(excess)} compulsory" if excess else ""))
    if result.source == "measure" and point.standing == "shown" and point.time_ns is not None:
        rate = rate_tflops(points, point)
        lines.append(f"time {time_text(point.time_ns)}" + (f", {significant(rate)} TFLOP/s" if rate else ""))
        bound = with_bounds(result).time_bound
        if bound:
            lines.append(f"at least {time_text(float(bound['time_ns']))}, bound by {bound['binds']}")
    if result.status != "ok":
        lines.append(f"status: {result.status}")
    return "\n".join(lines)


def _heads(count: int) -> str:
    return "1 head" if count == 1 else f"{count:,} heads"
