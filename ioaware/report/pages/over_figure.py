"""Draw bytes over the parameters of a target.

Formulas, simulation and measurements share a panel; ratios and times are below.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ioaware.display.units import times_text
from ioaware.report.chart import Axis, Cell, Figure, Panel, Series, cell_of, drawable, error_bars, series_of
from ioaware.report.pages.over import Curve, Moved, value_of
from ioaware.report.table_cells import bytes_shown, time_shown
from ioaware.result import Timing

if TYPE_CHECKING:
    from ioaware.report.pages.findings import Compared, Findings

BYTES = Axis("bytes", "bytes")
DEVIATION = Axis("measured ÷ derived", "ratio", log=False)
TIME = Axis("time (s)", "time")
REQUESTED, SECTORS, HBM, FLOOR = "flash1", "other", "standard", "flash2"
"""Colours of the quantities."""


def over_parameters(found: Findings) -> Figure | None:
    """Return a cell per parameter with the bytes over it.

    The series are requested bytes, sectors, leading term, compulsory bytes and measured points.
    """
    cells = [_over(found, one) for one in found.curves if one.points]
    dots = any(series.mark == "measure" for cell in cells for panel in cell.panels for series in panel.series)
    figure = Figure("over", "Bytes over the parameters", _over_caption(found, dots=dots), tuple(cells)) if cells else None
    return drawable(figure) if figure is not None else None


def _over_caption(found: Findings, *, dots: bool) -> str:
    parts = ["The formulas, evaluated at every point; no point is fitted. The other parameters stay as given."]
    if any(point.leading_bytes is not None for one in found.curves for point in one.points):
        parts.append("The leading term is the formula's limit where all symbols grow.")
    anew = [one for one in found.curves if one.pieces > 1]
    if anew:
        names = ", ".join(one.span.name for one in anew)
        parts.append(f"Kernels are compiled anew along {names}: {sum(one.pieces for one in anew)} derivations.")
    if missing := [f"{len(one.left_out)} of {one.span.name}" for one in found.curves if one.left_out]:
        parts.append(f"Values left out: {', '.join(missing)}; notes say why.")
    for one in found.curves:
        if one.simulated and one.not_simulated:
            parts.append(f"HBM is simulated up to {one.span.name} = {one.simulated[-1].value:,}: more takes too long.")
    if dots:
        parts.append("Dots are measured by hardware counters; error bars of times are quartiles.")
    return " ".join(parts)


def _over(found: Findings, one: Curve) -> Cell:
    name = one.span.name
    rows = one.points

    def line(label: str, color: str, mark: str, values: list[int | None]) -> tuple[Series, ...]:
        told = [
            (
                float(point.value),
                None if value is None else float(value),
                f"{name} = {point.value:,}\n{label}: {bytes_shown(value)}",
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
        *line("lower bound on requested", "neutral", "bound", [_apart(point) for point in rows]),
        *_measured(found, name),
        *_simulated(found, one),
    )
    ratios = tuple(_deviations(found, name))
    times = tuple(_times(found, one))
    return cell_of(
        name,
        Axis(name, "size"),
        Panel(BYTES, series),
        Panel(DEVIATION, ratios, 0.45, guide=1.0),
        *([Panel(TIME, times, 0.7)] if len(times) > 1 else []),
    )


def _apart(point: Moved) -> int | None:
    """Return the lower bound where it is not the compulsory bytes."""
    return None if point.bound_bytes == point.compulsory_bytes else point.bound_bytes


def _simulated(found: Findings, one: Curve) -> tuple[Series, ...]:
    """Return simulated HBM bytes along the range.

    At the page's own point they have the range of what is unknown of the L2.
    """
    name = one.span.name
    along = [
        (float(at.value), float(at.hbm_bytes), f"{name} = {at.value:,}\nHBM, simulated: {bytes_shown(at.hbm_bytes)}")
        for at in one.simulated
    ]
    value, moved = value_of(found.derived, name), found.hbm_bytes
    here: tuple[Series, ...] = ()
    if value and moved is not None and found.simulated is not None:
        low, most = found.hbm_range
        high = moved if most is None else most
        said = f"{name} = {value:,}\nHBM, simulated: {bytes_shown(moved)}\nfrom {bytes_shown(low)} to {bytes_shown(high)}"
        here = error_bars(
            "HBM, simulated", HBM, "simulate", [(float(value), float(moved), (float(low or 1), float(high)), said)]
        )
    return (*series_of("HBM, simulated", HBM, "simulated curve", along, "HBM"), *here)


def _deviations(found: Findings, name: str) -> Iterator[Series]:
    """Yield measured over derived bytes of the comparable points."""
    rows = [
        (x, 1 + one.deviation, f"{name} = {x:,.0f}\nmeasured ÷ derived: {times_text(1 + one.deviation, 6)}")
        for one in _along(found, name)
        if one.deviation is not None and (x := _number(one.measured.params.get(name))) is not None
    ]
    yield from series_of("requested, measured", REQUESTED, "measure", rows)


def _times(found: Findings, one: Curve) -> Iterator[Series]:
    """Yield the least time of any kernel along the range, and measured times."""
    name = one.span.name
    bounds = [(point, found.bound(point.flops, point.compulsory_bytes, point.compulsory)) for point in one.points]
    rows = [
        (
            float(point.value),
            bound.time_ns,
            f"{name} = {point.value:,}\nat least {time_shown(bound.time_ns)}, bound by {bound.binds}",
        )
        for point, bound in bounds
    ]
    yield from series_of("time floor", FLOOR, "ceiling", rows)
    timed = [
        (x, timing.median_ns, (timing.p25_ns, timing.p75_ns), f"{name} = {x:,.0f}\n{_spoken(timing)}")
        for measured in (pair.measured for pair in _along(found, name))
        if (x := _number(measured.params.get(name))) is not None and (timing := measured.timing) and measured.status == "ok"
    ]
    yield from error_bars("time, measured", "ink", "measure", timed)


def _spoken(timing: Timing) -> str:
    ends = f"{time_shown(timing.p25_ns, 4)} to {time_shown(timing.p75_ns, 4)}"
    return f"time: {time_shown(timing.median_ns, 4)}, quartiles {ends}, {timing.count} repetitions"


def _along(found: Findings, name: str) -> list[Compared]:
    """Return measured points that differ from the page's in this parameter alone."""
    others = {key: value for key, value in (found.derived.symbols or {}).items() if key != name}
    return [one for one in found.measured if all(one.measured.params.get(key) == value for key, value in others.items())]


def _measured(found: Findings, name: str) -> tuple[Series, ...]:
    """Return measured requested and HBM bytes of comparable points."""
    along = [one.measured for one in _along(found, name)]
    requested = [(_number(one.params.get(name)), one.requested and one.requested.total_bytes) for one in along]
    hbm = [(_number(one.params.get(name)), one.hbm and one.hbm.total_bytes) for one in along]
    told = [
        [(x, y, f"{name} = {x:,.0f}\n{label}: {bytes_shown(y)}" if x else "") for x, y in rows]
        for label, rows in (("requested, measured", requested), ("HBM, measured", hbm))
    ]
    return (
        *series_of("requested, measured", REQUESTED, "measure", told[0]),
        *series_of("HBM, measured", HBM, "measure", told[1]),
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int) else None
