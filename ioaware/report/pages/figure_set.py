"""Build the figures of a target's page.

They are bytes side by side, bytes over parameters, the roofline, and the launches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ioaware.display.units import UNKNOWN, significant, times_text
from ioaware.machine.time_bound import TimeBound, fastest_hbm
from ioaware.report.chart import Axis, Cell, Figure, Panel, Series, drawable, error_bars, series_of
from ioaware.report.pages.known_hbm import range_text
from ioaware.report.pages.over_figure import FLOOR, HBM, REQUESTED, SECTORS, over_parameters
from ioaware.report.svg.bars import Bar, BarFigure
from ioaware.report.table_cells import bytes_shown, time_shown
from ioaware.result import Launch

if TYPE_CHECKING:
    from ioaware.report.pages.findings import Findings

MAX_LAUNCH_BARS = 16


@dataclass(frozen=True, slots=True)
class Shown:
    """A figure with the command that reproduces its numbers."""

    figure: Figure | BarFigure
    command: str


def figures_of(found: Findings) -> Iterator[Shown]:
    """Yield the figures that the findings support, in reading order."""
    report = f"ioaware report {found.words}"
    if not found.torch_alone and any(bar.value or bar.interval for bar in side_by_side(found).bars):
        yield Shown(side_by_side(found), report)
    grown = over_parameters(found)
    if grown is not None:
        yield Shown(grown, report + found.ranges)
    roof = roofline(found)
    if roof is not None:
        yield Shown(roof, report)
    if len(found.derived.launches) > 1:
        yield Shown(launches(found), report)


def side_by_side(found: Findings) -> BarFigure:
    """Return requested, simulated, compulsory bytes and the lower bound as bars."""
    requested, sectors = found.requested_bytes, found.sector_bytes
    most = ", at most" if found.at_most else ""
    bars = [Bar(f"requested by the kernels{most}", requested, _against(requested, found), REQUESTED)]
    if sectors is not None and sectors != requested:
        bars.append(Bar(f"requested, in whole 32-byte sectors{most}", sectors, _against(sectors, found), SECTORS))
    if found.simulated is not None:
        low, high = found.hbm_range
        interval = None if high is None else (low, high)
        decided = found.hbm_bytes is not None
        ends = range_text(low, high)
        shown = _against(found.hbm_bytes, found) if decided else f"{ends}: data decide"
        between = ends if decided and interval and bytes_shown(low) != bytes_shown(high) else ""
        name = "HBM with spills, simulated" if found.spills else f"HBM, simulated on {found.machine.name}"
        bars.append(Bar(name, found.hbm_bytes, shown, HBM, interval, between))
    bars.append(Bar("compulsory: inputs and outputs once", found.compulsory_bytes, bytes_shown(found.compulsory_bytes), FLOOR))
    if found.lower_bound_bytes is not None and found.lower_bound_bytes != found.compulsory_bytes:
        bars.append(Bar("lower bound on requested", found.lower_bound_bytes, bytes_shown(found.lower_bound_bytes), "neutral"))
    caption = "Requested bytes pass between the L2 and the SMs. What the L2 does not hold passes to HBM. "
    unknown = "the L2" if found.hbm_bytes is not None else "the data"
    caption += f"The whisker is the range over what is unknown of {unknown}. " if found.simulated else ""
    caption += "It includes registers that spill, which requested bytes leave out. " if found.spills else ""
    caption += f"Not simulated: {found.why_not_simulated}. " if found.why_not_simulated else ""
    caption += "A dash stands for a number that depends on data." if any(UNKNOWN in bar.shown for bar in bars) else ""
    return BarFigure("bytes", "Bytes, side by side", caption.strip(), tuple(bars))


def _against(value: int | None, found: Findings) -> str:
    """Return bytes, and how many times the compulsory ones they are."""
    floor = found.compulsory_bytes
    return bytes_shown(value) + (f"  ({times_text(value / floor, padded=True)})" if value and floor else "")


def roofline(found: Findings) -> Figure | None:
    """Return the machine's roofs with the work at three intensities.

    Requested bytes stand below the L2's roof, simulated and compulsory ones below that of HBM. None without FLOPs.
    """
    flops, dtype, hbm_rate = found.derived.flops, found.peak_dtype, fastest_hbm(found.machine)
    if dtype is None or hbm_rate is None or not flops:
        return None
    peak, l2_rate = found.machine.peaks[dtype].flops_per_s, found.machine.level("l2").bandwidth_bytes_per_s
    requested = found.derived.requested.total_bytes if found.derived.requested else None
    compulsory = found.derived.compulsory
    places = (
        ("requested", requested, found.bound(flops, requested, None), REQUESTED),
        ("simulated HBM", found.hbm_bytes, found.bound(flops, None, found.hbm), HBM),
        ("compulsory", found.compulsory_bytes, found.bound(flops, None, compulsory), FLOOR),
    )
    marks = [one for label, moved, bound, color in places for one in _on_roof(bound, flops, label, moved, color)]
    marks += _timed(found)
    roofs = {"HBM": (hbm_rate, HBM), "L2": (l2_rate, REQUESTED)}
    seen = [x for one in marks for x in one.x] + [peak / rate for rate, _ in roofs.values() if rate]
    rates = f"{significant(hbm_rate / 1e12)} TB/s at HBM"
    rates += f", {significant(l2_rate / 1e12)} TB/s of the L2" if l2_rate else ""
    caption = (
        f"{found.machine.name}: {rates} and {significant(peak / 1e12)} TFLOP/s of {dtype}. "
        f"The ridge of HBM: {significant(peak / hbm_rate)} FLOP per byte. "
        "FLOPs are those of matrix products. An open point says what its roof allows at that intensity; a dot is measured."
    )
    cell = Cell(
        "",
        Axis("FLOP per byte", "intensity"),
        (Panel(Axis("attainable TFLOP/s", "rate"), (*_roofs(roofs, peak, dtype, min(seen) / 4, max(seen) * 4), *marks), 1.25),),
    )
    return drawable(Figure("roofline", f"Roofline of {found.machine.name}", caption, (cell,), 1))


def _roofs(rates: Mapping[str, tuple[float | None, str]], peak: float, dtype: str, low: float, high: float) -> Iterator[Series]:
    """Yield the slope of each level's rate, and the peak from the first ridge on.

    A level has the colour of the bytes that pass it.
    """
    known = [(level, rate, color) for level, (rate, color) in rates.items() if rate]
    for level, rate, color in known:
        ends = [(x, x * rate / 1e12, f"{level}: {significant(x)} FLOP per byte") for x in (peak / rate, low)]
        yield from series_of(f"roof of {level}", color, "ceiling", ends, level)
    first, name = peak / max(rate for _, rate, _ in known), f"peak of {dtype}"
    yield from series_of(name, "ink", "ceiling", [(x, peak / 1e12, name) for x in (first, high)], name)


def _on_roof(bound: TimeBound, flops: int, label: str, moved: int | None, color: str) -> tuple[Series, ...]:
    if not moved:
        return ()
    rate = flops / bound.time_ns / 1e3 if bound.time_ns else None
    name = f"at {label} bytes"
    hover = f"{name}: {significant(flops / moved)} FLOP per byte\nat least {time_shown(bound.time_ns)}, bound by {bound.binds}"
    return series_of(name, color, "simulate", [(flops / moved, rate, hover)], label)


def _timed(found: Findings) -> tuple[Series, ...]:
    """Return measured rates at measured HBM bytes, of measurements on this machine."""
    rows: list[tuple[float, float, tuple[float, float], str]] = []
    for one in (pair.measured for pair in found.measured):
        moved = one.hbm.total_bytes if one.hbm else None
        on_it = (one.environment or {}).get("gpu") == found.machine.device
        if moved and one.flops and one.time_ns and on_it and one.status == "ok":
            rate = one.flops / one.time_ns / 1e3
            slow, fast = (one.timing.p75_ns, one.timing.p25_ns) if one.timing else (one.time_ns, one.time_ns)
            ends = (one.flops / slow / 1e3, one.flops / fast / 1e3)
            rows.append((one.flops / moved, rate, ends, f"measured: {significant(rate)} TFLOP/s, {time_shown(one.time_ns)}"))
    return error_bars(f"measured on {found.machine.name}", "ink", "measure", rows)


def launches(found: Findings) -> BarFigure:
    """Return the bytes of the launches as bars, the most first.

    Launches of one kernel with equal bytes are one bar.
    """
    groups: dict[tuple[str, str, int | None], list[int]] = {}
    for number, one in enumerate(found.derived.launches, 1):
        groups.setdefault((one.kernel, one.origin, _bytes(one)), []).append(number)
    several = sorted(groups.items(), key=lambda group: -(group[0][2] or 0) * len(group[1]))
    bars: list[Bar] = []
    for (kernel, origin, moved), numbers in several[:MAX_LAUNCH_BARS]:
        own, together = origin == "triton", None if moved is None else moved * len(numbers)
        times = f", {len(numbers):,} launches" if len(numbers) > 1 else ""
        name = f"{numbers[0]}. {kernel}{times}" + ("" if own else " (torch)")
        bars.append(Bar(name, together, bytes_shown(together), REQUESTED if own else "neutral"))
    left = len(several) - len(bars)
    caption = "Requested bytes of each launch, the most first; the number is its place in launch order. "
    caption += "Equal launches are one bar. " if len(groups) < len(found.derived.launches) else ""
    caption += (
        "Grey: torch's own operators, inputs read once and outputs written once. "
        if any(bar.color == "neutral" for bar in bars)
        else ""
    )
    caption += "A dash stands for a number that depends on data. " if any(bar.value is None for bar in bars) else ""
    caption += f"The table below has {left} more." if left else ""
    return BarFigure("launches", "Launches by bytes", caption.strip(), tuple(bars))


def _bytes(launch: Launch) -> int | None:
    return launch.requested.total_bytes if launch.requested else None
