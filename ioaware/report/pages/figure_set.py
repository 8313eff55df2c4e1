"""Build the figures of a target's page.

They are bytes side by side, bytes over parameters, the roofline, and the launches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ioaware.display.units import bytes_text, significant, time_text, times_text
from ioaware.report.chart import Axis, Cell, Figure, Panel, Series, cell_of, drawable, series_of
from ioaware.report.pages.findings import Findings
from ioaware.report.pages.over import Curve
from ioaware.report.pages.time_floors import Rates, time_floor
from ioaware.report.svg.bars import Bar, BarFigure
from ioaware.result import Launch

MAX_LAUNCH_BARS = 16
BYTES = Axis("bytes", "bytes")
REQUESTED, SECTORS, HBM, FLOOR = "flash1", "other", "standard", "flash2"
"""Colours of the quantities."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A figure with the command that reproduces its numbers."""

    figure: Figure | BarFigure
    command: str


def figures_of(found: Findings) -> Iterator[Shown]:
    """Yield the figures that the findings support, in reading order."""
    simulate = f"ioaware simulate {found.words} --machine {found.machine.name}"
    yield Shown(side_by_side(found), simulate)
    grown = over_parameters(found)
    if grown is not None:
        ranges = " ".join(f"--over {one.span}" for one in found.curves)
        yield Shown(grown, f"ioaware report {found.words} {ranges}")
    roof = roofline(found)
    if roof is not None:
        yield Shown(roof, simulate)
    if len(found.derived.launches) > 1:
        yield Shown(launches(found), simulate)


def side_by_side(found: Findings) -> BarFigure:
    """Return requested, simulated, compulsory bytes and the lower bound as bars."""
    derived = found.derived
    requested = derived.requested.total_bytes if derived.requested else None
    sides = (derived.requested.read_sector_bytes, derived.requested.write_sector_bytes) if derived.requested else (None,)
    sectors = sum(side for side in sides if side is not None) if None not in sides else None
    bars = [Bar("requested by the kernels", requested, _against(requested, found), REQUESTED)]
    if sectors is not None and sectors != requested:
        bars.append(Bar("requested, in whole 32-byte sectors", sectors, _against(sectors, found), SECTORS))
    if found.simulated is not None:
        (reads, most_reads), (writes, most_writes) = found.simulated.read_range, found.simulated.write_range
        interval = None if most_reads is None or most_writes is None else (reads + writes, most_reads + most_writes)
        shown = _against(found.hbm_bytes, found)
        bars.append(Bar(f"HBM, simulated on {found.machine.name}", found.hbm_bytes, shown, HBM, interval))
    bars.append(Bar("compulsory: inputs and outputs once", found.compulsory_bytes, bytes_text(found.compulsory_bytes), FLOOR))
    if found.lower_bound_bytes is not None and found.lower_bound_bytes != found.compulsory_bytes:
        bars.append(Bar("lower bound of the problem", found.lower_bound_bytes, bytes_text(found.lower_bound_bytes), "neutral"))
    caption = "Requested bytes pass between the L2 and the SMs. What the L2 does not hold passes to HBM. "
    caption += "The whisker is the range over what is unknown of the L2. " if found.simulated else ""
    caption += f"Not simulated: {found.why_not_simulated}. " if found.why_not_simulated else ""
    caption += "A dash stands for a number that depends on data." if any(bar.value is None for bar in bars) else ""
    return BarFigure("bytes", "Bytes, side by side", caption.strip(), tuple(bars))


def _against(value: int | None, found: Findings) -> str:
    """Return bytes, and how many times the compulsory ones they are."""
    floor = found.compulsory_bytes
    return bytes_text(value) + (f"  ({times_text(value / floor, padded=True)})" if value and floor else "")


def over_parameters(found: Findings) -> Figure | None:
    """Return a cell per parameter with the bytes over it.

    The series are requested bytes, sectors, leading term, compulsory bytes and measured points.
    """
    cells = [_over(found, one) for one in found.curves if one.points]
    figure = Figure("over", "Bytes over the parameters", _over_caption(found), tuple(cells)) if cells else None
    return drawable(figure) if figure is not None else None


def _over_caption(found: Findings) -> str:
    parts = ["The formulas, evaluated at every point; no point is fitted. The other parameters stay as given."]
    if any(point.leading_bytes is not None for one in found.curves for point in one.points):
        parts.append("The leading term is the formula's limit where all symbols grow.")
    for one in found.curves:
        if one.left_out:
            parts.append(f"{len(one.left_out)} values of {one.span.name} are left out: {one.why}.")
    if found.measured:
        parts.append("Dots are measured by hardware counters.")
    return " ".join(parts)


def _over(found: Findings, one: Curve) -> Cell:
    name = one.span.name
    rows = one.points

    def line(label: str, color: str, mark: str, values: list[int | None]) -> tuple[Series, ...]:
        told = [
            (
                float(point.value),
                None if value is None else float(value),
                f"{name} = {point.value:,}\n{label}: {bytes_text(value)}",
            )
            for point, value in zip(rows, values, strict=True)
        ]
        return series_of(label, color, mark, told, label if mark != "leading" else "")  # pyright: ignore[reportArgumentType]

    differs = any(point.sector_bytes not in (None, point.requested_bytes) for point in rows)
    series = (
        *line("requested", REQUESTED, "derive", [point.requested_bytes for point in rows]),
        *(line("sectors", SECTORS, "derive", [point.sector_bytes for point in rows]) if differs else ()),
        *line("leading term", REQUESTED, "leading", [point.leading_bytes for point in rows]),
        *line("compulsory", FLOOR, "compulsory", [point.compulsory_bytes for point in rows]),
        *_measured(found, name),
        *_here(found, name),
    )
    return cell_of(name, Axis(name, "size"), Panel(BYTES, series))


def _here(found: Findings, name: str) -> tuple[Series, ...]:
    """Return simulated HBM bytes at the page's own point."""
    value = (found.derived.symbols or {}).get(name)
    row = (
        (value, found.hbm_bytes, f"{name} = {value:,}\nHBM, simulated: {bytes_text(found.hbm_bytes)}")
        if value
        else (None, None, "")
    )
    return series_of("HBM, simulated", HBM, "simulate", [row])


def _measured(found: Findings, name: str) -> tuple[Series, ...]:
    """Return measured requested and HBM bytes of comparable points.

    They differ from the page's in this parameter alone.
    """
    others = {key: value for key, value in (found.derived.symbols or {}).items() if key != name}
    along = [
        one.measured for one in found.measured if all(one.measured.params.get(key) == value for key, value in others.items())
    ]
    requested = [(_number(one.params.get(name)), one.requested and one.requested.total_bytes) for one in along]
    hbm = [(_number(one.params.get(name)), one.hbm and one.hbm.total_bytes) for one in along]
    told = [
        [(x, y, f"{name} = {x:,.0f}\n{label}: {bytes_text(y)}" if x else "") for x, y in rows]
        for label, rows in (("requested, measured", requested), ("HBM, measured", hbm))
    ]
    return (
        *series_of("requested, measured", REQUESTED, "measure", told[0]),
        *series_of("HBM, measured", HBM, "measure", told[1]),
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int) else None


def roofline(found: Findings) -> Figure | None:
    """Return the machine's roof with the work at three intensities.

    They are requested, simulated and compulsory; None without FLOPs.
    """
    rates, flops = found.rates, found.derived.flops
    if rates is None or not flops:
        return None
    requested = found.derived.requested.total_bytes if found.derived.requested else None
    places = (
        ("at requested bytes", requested, REQUESTED),
        ("at simulated HBM bytes", found.hbm_bytes, HBM),
        ("at compulsory bytes", found.compulsory_bytes, FLOOR),
    )
    marks = [one for label, moved, color in places for one in _on_roof(rates, flops, label, moved, color)]
    marks += _timed(found, rates)
    ridge = rates.flops_per_s / rates.hbm_bytes_per_s
    seen = [x for one in marks for x in one.x] + [ridge]
    low, high = min(seen) / 4, max(seen) * 4
    ends = [
        (x, min(rates.flops_per_s, x * rates.hbm_bytes_per_s) / 1e12, f"{significant(x)} FLOP per byte")
        for x in (low, ridge, high)
    ]
    roof = series_of(f"roof of {rates.machine}", "ink", "ceiling", ends)
    series = (*roof, *marks)
    caption = (
        f"{rates.machine}: {significant(rates.hbm_bytes_per_s / 1e12)} TB/s at HBM and "
        f"{significant(rates.flops_per_s / 1e12)} TFLOP/s of {rates.dtype}. The ridge: {significant(ridge)} FLOP per byte. "
        "FLOPs are those of matrix products. A point says what the roof allows at that intensity, not a measured rate. "
        f"({rates.source})"
    )
    cell = Cell("", Axis("FLOP per byte", "intensity"), (Panel(Axis("attainable TFLOP/s", "rate"), series, 1.25),))
    return drawable(Figure("roofline", f"Roofline of {rates.machine}", caption, (cell,), 1))


def _on_roof(rates: Rates, flops: int, label: str, moved: int | None, color: str) -> tuple[Series, ...]:
    if not moved:
        return ()
    floor = time_floor(rates, moved, flops)
    rate = flops / floor.time_ns / 1e3 if floor.time_ns else None
    hover = f"{label}: {significant(flops / moved)} FLOP per byte\nat least {time_text(floor.time_ns)}, bound by {floor.binds}"
    return series_of(label, color, "simulate", [(flops / moved, rate, hover)], label)


def _timed(found: Findings, rates: Rates) -> tuple[Series, ...]:
    """Return measured rates at measured HBM bytes, of measurements on this machine."""
    rows: list[tuple[float | None, float | None, str]] = []
    for one in (pair.measured for pair in found.measured):
        moved = one.hbm.total_bytes if one.hbm else None
        on_it = (one.environment or {}).get("gpu") == found.machine.device
        if moved and one.flops and one.time_ns and on_it and one.status == "ok":
            rate = one.flops / one.time_ns / 1e3
            rows.append((one.flops / moved, rate, f"measured: {significant(rate)} TFLOP/s, {time_text(one.time_ns)}"))
    return series_of(f"measured on {rates.machine}", "ink", "measure", rows)


def launches(found: Findings) -> BarFigure:
    """Return the bytes of the launches as bars, the most first."""
    several = sorted(enumerate(found.derived.launches, 1), key=lambda pair: -(_bytes(pair[1]) or 0))
    bars = [
        Bar(
            f"{number}. {one.kernel}" + ("" if one.origin == "triton" else " (torch)"),
            _bytes(one),
            bytes_text(_bytes(one)),
            REQUESTED if one.origin == "triton" else "neutral",
        )
        for number, one in several[:MAX_LAUNCH_BARS]
    ]
    left = len(several) - len(bars)
    caption = "Requested bytes of each launch, the most first; the number is its place in launch order. "
    caption += (
        "Grey: torch's own operators, inputs read once and outputs written once. "
        if any(bar.color == "neutral" for bar in bars)
        else ""
    )
    caption += f"The table below has {left} more." if left else ""
    return BarFigure("launches", "Launches by bytes", caption.strip(), tuple(bars))


def _bytes(launch: Launch) -> int | None:
    return launch.requested.total_bytes if launch.requested else None
