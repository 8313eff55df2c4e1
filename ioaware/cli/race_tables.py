"""Print the records of `ioaware bench`.

There is a table for each pass, failures with reasons, and the goals.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from ioaware.bench.attention_points import PASSES, Point
from ioaware.bench.goals import best_other, goals, own_entry, ratio, share, speed
from ioaware.bench.race_record import Entry, Record
from ioaware.bench.statistics import spread
from ioaware.cli.render import table
from ioaware.cli.terminal_text import printable

STATUS_CELL = {"wrong": "WRONG", "failed": "failed", "unsupported": "-", "absent": "-"}
THROTTLED = "*"
"""Marks the clock of a point that a power or temperature limit slowed down."""
SIZES = re.compile(r"\[[\d, ]+\]")


def scores_text(records: Sequence[Record], *, verbose: bool) -> Iterator[RenderableType]:
    """Yield the machine, a table for each pass, remarks and goals.

    `verbose` adds host times and spreads.
    """
    if records[0].environment:
        yield Text(printable(where(records[0].environment)))
        yield Text("")
    for what in PASSES:
        part = [record for record in records if record.point.what == what]
        if part:
            unit = "TB/s" if part[0].point.bound_by_bytes else "TFLOP/s"
            yield Text(f"{what}, {part[0].point.dtype}, {unit}; ratio: to the best other back end, in the same rounds")
            yield _speeds(part)
            yield Text("")
            if verbose:
                yield Text("microseconds of the host a call, and half the quartiles' distance over the median")
                yield _costs(part)
                yield Text("")
    yield from _remarks(records)
    yield from _goals(records)


def where(environment: Mapping[str, Any]) -> str:
    """Return the machine and the versions of a run in one line."""
    limit = environment.get("power_limit_mw")
    parts = [environment.get("gpu"), f"{limit / 1000:.0f} W" if limit else None]
    names = ("driver", "cuda", "cudnn", "torch", "triton", "ioaware", "commit")
    parts += [f"{name} {environment[name]}" for name in names if environment.get(name) is not None]
    return ", ".join(str(one) for one in parts if one is not None)


def _names(records: Iterable[Record]) -> list[str]:
    """Return the back ends that ran anywhere, in their order."""
    return list(dict.fromkeys(entry.name for record in records for entry in record.entries if entry.status != "absent"))


def _speeds(records: Sequence[Record]) -> RenderableType:
    names = _names(records)
    ceiling = "copy" if records[0].point.bound_by_bytes else "matmul"
    columns = ["", *names, "ratio", "best other", ceiling, "share", "host us", "SM MHz", "W", "C"]
    return table(columns, [_row(record, names) for record in records])


def _row(record: Record, names: Sequence[str]) -> list[str]:
    ours, other, ahead = own_entry(record), best_other(record), ratio(record)
    rates = record.copy_bytes_per_s if record.point.bound_by_bytes else record.matmul_flops_per_s
    of_ceiling = share(record, ours) if ours else None
    return [
        place(record.point),
        *(_rate(record, record.entry(name)) for name in names),
        f"{ahead.median:.3f}" if ahead else "",
        other.name if other else "",
        _figure(record.point, spread(rates).median) if rates else "",
        f"{of_ceiling:.0%}" if of_ceiling else "",
        f"{ours.host_us:.0f}" if ours and ours.host_us else "",
        _median(record, "sm_clock_mhz", 1) + THROTTLED * bool(record.telemetry.get("throttled")),
        _median(record, "power_mw", 1000),
        _median(record, "temperature_c", 1),
    ]


def place(point: Point) -> str:
    """Return a point's label without its pass, which the table's title names."""
    return point.label.removeprefix(f"{point.what} ")


def _rate(record: Record, entry: Entry | None) -> str:
    if entry is None:
        return ""
    return STATUS_CELL.get(entry.status) or _figure(record.point, speed(record, entry).median)


def _figure(point: Point, per_s: float) -> str:
    return f"{per_s / 1e12:.2f}" if point.bound_by_bytes else f"{per_s / 1e12:.0f}"


def _median(record: Record, name: str, scale: int) -> str:
    found = record.telemetry.get(name)
    return f"{found['median'] / scale:.0f}" if found else ""


def _costs(records: Sequence[Record]) -> RenderableType:
    names = _names(records)
    return table(["", *names], [[place(record.point), *(_cost(record.entry(name)) for name in names)] for record in records])


def _cost(entry: Entry | None) -> str:
    if entry is None or entry.status != "ok":
        return ""
    return f"{entry.host_us or 0:.0f} ±{spread(entry.times_ns).relative:.1%}"


def _remarks(records: Sequence[Record]) -> Iterator[RenderableType]:
    """Yield the failures, configurations and reasons for distrust, each once.

    They say why a back end failed, its configuration, and why a point's time may be unreliable.
    """
    labels: dict[str, list[str]] = defaultdict(list)
    for record in records:
        for entry in record.entries:
            if entry.status != "ok" or (entry.reason and not entry.graph):
                reason = SIZES.sub("[...]", entry.reason)  # the same refusal at every shape is printed once
                labels[f"{entry.name}: {entry.status}: {reason}"].append(record.point.label)
        for name in ("throttled", "unstable"):
            for reason in record.telemetry.get(name, ()):
                kind = "SM clock stepped" if reason.startswith("SM clock stepped") else reason
                labels[f"{name}{THROTTLED * (name == 'throttled')}: {kind}"].append(record.point.label)
    for remark, where in labels.items():
        places = (
            "every point" if len(where) == len(records) else f"{where[0]}{f' and {len(where) - 1} more' * (len(where) > 1)}"
        )
        yield Text(printable(f"note: {remark} ({places})"))


def _goals(records: Sequence[Record]) -> Iterator[RenderableType]:
    judged = goals(records)
    if not judged:
        return
    yield Text("")
    rows = [
        (goal.name, f"{goal.value:.3f}", f"{goal.at_least:.2f}", "met" if goal.met else "NOT MET", str(goal.points), goal.worst)
        for goal in judged
    ]
    yield table(["goal", "measured", "at least", "", "points", "worst at"], rows)
