"""Print a `Result`: launches, totals and ratios.

It shows what each launch moves, totals, and ratios to the lower bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ioaware.cli.terminal_text import exact, printable
from ioaware.display.units import UNKNOWN, bytes_text, percent_text, significant, time_text, times_text
from ioaware.result import Launch, Result, Status, Traffic

Row = Sequence[str]


def table(columns: Sequence[str], rows: Iterable[Row], *, left: int = 1) -> Table:
    """Return a borderless table.

    The first `left` columns are words, the others numbers.
    """
    result = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, column in enumerate(columns):
        result.add_column(column, justify="left" if index < left else "right", overflow="fold")
    for row in rows:
        result.add_row(*(Text(printable(cell)) for cell in row))
    return result


def facts(rows: Iterable[Row]) -> Table:
    """Return names, values and remarks in aligned columns, without a header."""
    result = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for justify in ("left", "right", "left"):
        result.add_column(justify=justify, overflow="fold")
    for row in rows:
        result.add_row(*(Text(printable(cell)) for cell in row))
    return result


def assignments(params: Mapping[str, Any]) -> str:
    """Return `name=value ...` as a user types it, without parameters that are None."""
    return " ".join(f"{name}={_typed(value)}" for name, value in params.items() if value is not None)


def _typed(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def result_text(result: Result, *, verbose: bool = False) -> Iterator[RenderableType]:
    """Yield the whole result: title, launches, totals, notes.

    `verbose` adds every other known number.
    """
    yield Text(printable(f"{result.source} {result.target}  {assignments(result.params)}\n"))
    if result.launches:
        yield _launches(result)
        yield Text("")
    if named := list(_parameters(result)):
        yield facts(named)
        yield Text("")
    yield facts(_totals(result))
    if verbose:
        yield from _details(result)
    remarks = [*result.notes, *(f"{launch.kernel}: {note}" for launch in result.launches for note in launch.notes)]
    if remarks:
        yield Text("")
    for remark in dict.fromkeys(remarks):
        yield Text(printable(f"note: {remark}"))


def _parameters(result: Result) -> Iterator[Row]:
    """Yield the arguments of launches that are parameters of a module."""
    named = [(launch.kernel, *pair) for launch in result.launches for pair in (launch.parameters or {}).items()]
    for kernel, argument, name in dict.fromkeys(named):
        yield kernel, argument, f"is {name}"


def _details(result: Result) -> Iterator[RenderableType]:
    """Yield exact bytes and formulas of every launch, telemetry and environment."""
    for launch in result.launches:
        yield Text(printable(f"\n{_name(launch)}"))
        yield facts((*_traffic("requested", launch.requested), *_traffic("hbm", launch.hbm)))
    for title, values in (("telemetry", result.telemetry), ("environment", result.environment)):
        if values:
            yield Text(f"\n{title}")
            yield facts((name, str(value), "") for name, value in values.items())


LAUNCH_COLUMNS: Sequence[tuple[str, Callable[[Launch], Any]]] = (
    ("grid", lambda launch: " x ".join(map(str, launch.grid)) or None),
    ("read", lambda launch: launch.requested and launch.requested.read_bytes),
    ("write", lambda launch: launch.requested and launch.requested.write_bytes),
    ("atomic", lambda launch: launch.requested and launch.requested.atomic_bytes),
    ("read sectors", lambda launch: launch.requested and launch.requested.read_sector_bytes),
    ("write sectors", lambda launch: launch.requested and launch.requested.write_sector_bytes),
    ("hbm read", lambda launch: launch.hbm and launch.hbm.read_bytes),
    ("hbm write", lambda launch: launch.hbm and launch.hbm.write_bytes),
    ("FLOPs", lambda launch: launch.flops),
    ("time", lambda launch: launch.time_ns),
    ("at least", lambda launch: launch.time_bound and launch.time_bound["time_ns"]),
    ("bound by", lambda launch: launch.time_bound and launch.time_bound["binds"]),
)


def _launches(result: Result) -> Table:
    """Return a table with a row per launch.

    A column appears when any launch has its number.
    """
    cells = [[value(launch) for _, value in LAUNCH_COLUMNS] for launch in result.launches]
    shown = [index for index in range(len(LAUNCH_COLUMNS)) if any(row[index] for row in cells)]
    names = [LAUNCH_COLUMNS[index][0] for index in shown]
    rows = [
        [_name(launch), *(_cell(LAUNCH_COLUMNS[index][0], row[index]) for index in shown)]
        for launch, row in zip(result.launches, cells, strict=True)
    ]
    return table(["launch", *names], rows)


def _name(launch: Launch) -> str:
    return launch.kernel if launch.origin == "triton" else f"{launch.kernel} (torch)"


def _cell(column: str, value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or UNKNOWN
    if column in ("time", "at least"):
        return time_text(value)
    return exact(value, "") if column == "FLOPs" else bytes_text(value)


def _totals(result: Result) -> Iterator[Row]:
    """Yield exact bytes, their formulas, and ratios to the lower bounds."""
    yield from _traffic("requested", result.requested)
    yield from _traffic("assumed (torch)", result.assumed)
    yield from _traffic("hbm", result.hbm)
    if result.compulsory and result.compulsory.total_bytes is not None:
        yield "compulsory", exact(result.compulsory.total_bytes), _distance(result, result.compulsory.total_bytes)
    if result.lower_bound_bytes is not None:
        yield "lower bound", exact(result.lower_bound_bytes), _distance(result, result.lower_bound_bytes)
    if result.extra_memory_bytes is not None:
        yield "extra memory", exact(result.extra_memory_bytes), bytes_text(result.extra_memory_bytes)
    if result.flops:
        requested = result.requested and result.requested.total_bytes
        intensity = f"{significant(result.flops / requested)} FLOP per requested byte" if requested else ""
        yield "FLOPs", exact(result.flops, ""), intensity
    yield from _speed(result)
    yield from _judgement(result)


def _distance(result: Result, floor: int) -> str:
    """Return the ratio of each place to `floor`."""
    places = (("requested", result.requested), ("hbm", result.hbm))
    known = [(place, traffic.total_bytes) for place, traffic in places if traffic and traffic.total_bytes is not None]
    return ", ".join(f"{place} is {times_text(moved / floor)} this" for place, moved in known) if floor else ""


STATUS_MEANS: Mapping[Status, str] = {
    "throttled": "the clocks changed: the bytes hold, the time is not comparable",
    "unstable": "other processes used the GPU, or the point is incomplete",
    "impossible": "the numbers contradict physics",
    "failed": "there are no numbers to show",
}


def _judgement(result: Result) -> Iterator[Row]:
    """Yield whether the output is right and the numbers are reliable."""
    if result.check:
        error = f"relative error {result.check.relative_error:.2g}, allowed {result.check.tolerance:.2g}"
        yield "check", "passed" if result.check.passed else "FAILED", error
    elif result.source != "predict":
        yield "check", "none", "the target has no reference"
    if result.source == "measure" or result.status != "ok":
        yield "status", result.status, STATUS_MEANS.get(result.status, "")


def _traffic(place: str, traffic: Traffic | None) -> Iterator[Row]:
    if traffic is None:
        return
    rows = (
        ("reads", traffic.read_bytes, traffic.read_formula),
        ("writes", traffic.write_bytes, traffic.write_formula),
        ("atomics", traffic.atomic_bytes or None, None),
        ("read sectors", traffic.read_sector_bytes, None),
        ("write sectors", traffic.write_sector_bytes, None),
    )
    for name, value, formula in rows:
        if value is not None:
            yield f"{place} {name}", exact(value), f"= {formula}" if formula else bytes_text(value)


def _speed(result: Result) -> Iterator[Row]:
    """Yield the time, and rates only at steady clocks and for a right output."""
    time_ns = result.timing.median_ns if result.timing else result.time_ns
    if not time_ns:
        return
    spread = result.timing and f"p25 to p75: {time_text(result.timing.p25_ns)} to {time_text(result.timing.p75_ns)}"
    yield "time", time_text(time_ns), spread or ""
    if result.time_bound:
        least = float(result.time_bound["time_ns"])
        yield (
            "time bound",
            time_text(least),
            f"{percent_text(least / time_ns)} of the time, bound by {result.time_bound['binds']}",
        )
    if result.status != "ok" or (result.check and not result.check.passed):
        return
    if result.flops:
        yield "speed", f"{significant(result.flops / time_ns / 1e3)} TFLOP/s", ""
    for place, traffic in (("requested", result.requested), ("hbm", result.hbm)):
        moved = traffic.total_bytes if traffic else None
        if moved:
            yield f"{place} rate", f"{significant(moved / time_ns)} GB/s", ""
