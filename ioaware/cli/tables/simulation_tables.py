"""Print simulated results.

They are bytes of each launch and tensor, the reasons for repeated reads, and the accuracy of predictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from ioaware.cli.render import Row, assignments, facts, table
from ioaware.cli.terminal_text import exact, printable
from ioaware.display.units import UNKNOWN, bytes_text, percent_text, times_text
from ioaware.report.pages.known_hbm import bounds_alone, range_text
from ioaware.simulation.regimes import MEANING
from ioaware.simulation.waves.closed_form import closed_form_lines

if TYPE_CHECKING:
    from ioaware.result import Launch, Traffic
    from ioaware.simulation.accuracy import Accuracy, Comparison
    from ioaware.simulation.accuracy import Row as AccuracyRow
    from ioaware.simulation.simulation_result import LaunchSimulation, Range, Simulated, TensorTraffic

MAX_LAUNCHES = 20
"""Most launches shown with their tensors."""


def simulated_text(result: Simulated) -> Iterator[RenderableType]:
    """Yield title, launches, tensors of each launch, totals, notes."""
    title = f"simulate {result.target}  {assignments(result.params)}  on {result.machine}\n"
    yield Text(printable(title))
    pairs = [(one, how) for one, how in zip(result.launches, result.simulations, strict=True) if how is not None]
    columns = ("launch", "grid", "at once", "waves", "requested reads", "hbm reads", "requested writes", "hbm writes")
    yield table(columns, (_launch(one, how) for one, how in pairs))
    for one, how in pairs[:MAX_LAUNCHES]:
        yield Text(printable(f"\n{one.kernel}: {how.programs_per_sm} programs an SM, limited by {how.limited_by}"))
        columns = ("tensor", "hbm reads", "distinct", "times", "without reuse", "hbm writes", "regime")
        yield table(columns, (_tensor(tensor, one.parameters or {}) for tensor in how.tensors))
        for tensor in how.tensors:
            if tensor.reason and tensor.regime:
                yield Text(printable(f"{tensor.tensor}: {tensor.reason}; {MEANING[tensor.regime]}"))
        for line in closed_form_lines([(one.kernel, how)]):
            yield Text(printable(line))
    if len(pairs) > MAX_LAUNCHES:
        yield Text(f"\n{len(pairs) - MAX_LAUNCHES} more launches; --json has them all")
    yield Text("")
    yield facts(_totals(result))
    yield Text("")
    for note in dict.fromkeys([*result.notes, *(f"{one.kernel}: {note}" for one, _ in pairs for note in one.notes)]):
        yield Text(printable(f"note: {note}"))


def _launch(one: Launch, how: LaunchSimulation) -> Row:
    requested, hbm = one.requested, one.hbm
    return (
        one.kernel,
        " x ".join(map(str, one.grid)),
        str(how.programs_at_once),
        str(how.waves),
        bytes_text(_sectors(requested, "read")),
        _hbm(hbm and hbm.read_bytes, how.read_range, how),
        bytes_text(_sectors(requested, "write")),
        _hbm(hbm and hbm.write_bytes, how.write_range, how),
    )


def _hbm(moved: int | None, bounds: Range, how: LaunchSimulation) -> str:
    """Return the bytes that a launch moves, or their range where data decide them."""
    return range_text(*bounds) if how.data_dependent and bounds_alone(*bounds, data_dependent=True) else bytes_text(moved)


def _sectors(traffic: Traffic | None, way: str) -> int | None:
    """Return sector bytes where they are known, as the L2 sees them.

    Element bytes otherwise.
    """
    if traffic is None:
        return None
    sectors: int | None = getattr(traffic, f"{way}_sector_bytes")
    return sectors if sectors is not None else getattr(traffic, f"{way}_bytes")


def _tensor(one: TensorTraffic, parameters: Mapping[str, str]) -> Row:
    """Return a tensor's row, under its name in a module where it is a parameter."""
    times = one.times_read
    return (
        parameters.get(one.tensor, one.tensor),
        bytes_text(one.read_bytes),
        bytes_text(one.distinct_bytes),
        times_text(times) if times else UNKNOWN,
        bytes_text(one.by_wave_bytes),
        bytes_text(one.write_bytes),
        one.regime or UNKNOWN,
    )


def _totals(result: Simulated) -> Iterator[Row]:
    for way, bounds in (("read", result.read_range), ("write", result.write_range)):
        yield f"requested {way}s", _exact(_sectors(result.requested, way)), ""
        moved: int | None = getattr(result.hbm, f"{way}_bytes") if result.hbm else None
        yield f"hbm {way}s", _exact(moved), _between(bounds)
        floor: int | None = getattr(result.compulsory, f"{way}_bytes") if result.compulsory else None
        above = f"hbm is {times_text(moved / floor)} of it" if moved is not None and floor else ""
        yield f"compulsory {way}s", _exact(floor), above


def _exact(value: int | None) -> str:
    return UNKNOWN if value is None else exact(value)


def _between(bounds: Range) -> str:
    low, high = bounds
    return "" if low == high else f"between {exact(low)} and {'any number' if high is None else exact(high)}"


def accuracy_text(result: Accuracy) -> Iterator[RenderableType]:
    """Yield rows by family and place, outliers, points without prediction."""
    yield Text(f"predictions: {result.made}\n")
    columns = ("family", "place", "counted", "median", "95 %", "worst", "in range", "too small", "worst of these")
    yield table(columns, map(_accuracy_row, result.rows), left=2)
    if result.outliers:
        twice = [one for one in result.outliers if one.counted_again is not None]
        deviating = sum(one.deviates for one in twice)
        also = f"; {deviating} of {len(twice)} counted twice deviate as much by themselves" if twice else ""
        yield Text(f"\n{len(result.outliers)} outliers, more than 5 % off{also}")
        columns = ("point", "kernel", "place", "predicted", "counted", "error", "why")
        yield table(columns, map(_outlier, result.outliers), left=3)
    if result.unpredicted:
        yield Text(f"\n{len(result.unpredicted)} points without prediction")
        yield table(("point", "why"), result.unpredicted, left=2)


def _accuracy_row(row: AccuracyRow) -> Row:
    shares = [percent_text(value) for value in (row.median, row.percentile_95, row.worst)] if row.count else [UNKNOWN] * 3
    inside = f"{row.inside} of {row.count + row.small}" if row.has_range else UNKNOWN
    small = (str(row.small), bytes_text(row.worst_small_bytes)) if row.small else ("0", UNKNOWN)
    return (row.family, row.place, str(row.count), *shares, inside, *small)


def _outlier(one: Comparison) -> Row:
    error = (one.predicted - one.counted) / one.counted
    signed = f"{'+' if error > 0 else ''}{percent_text(error)}"
    return (one.point, one.kernel, one.place, bytes_text(one.predicted), bytes_text(one.counted), signed, one.explanation)
