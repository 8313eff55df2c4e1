"""Draw the speed of attention by back end over the sequence length.

The data are the records of `ioaware bench`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ioaware.bench.attention_points import Pass
from ioaware.bench.goals import ratio, share, speed
from ioaware.bench.race_record import Entry, Record
from ioaware.bench.registry import OWN, PLAIN
from ioaware.bench.statistics import spread
from ioaware.display.units import significant, time_text
from ioaware.report.chart import Axis, Cell, Figure, Panel, Series, error_bars, series_of

LENGTH = Axis("sequence length N (tokens)", "size")
CACHE = Axis("length of the cache (tokens)", "size")
NAMES = {OWN: "ioaware", PLAIN: "ioaware, plain Triton", "tutorial": "Triton's tutorial", "tutorial-file": "its own file"}
"""Names in figures of back ends with an unclear name of their own."""


def speeds(records: Sequence[Record]) -> list[Figure]:
    """Return one figure per pass of the records."""
    return [figure for what in ("forward", "backward", "decode") if (figure := _figure(what, records))]


def _figure(what: Pass, records: Sequence[Record]) -> Figure | None:
    seen = [record for record in records if record.point.what == what and any(entry.status == "ok" for entry in record.entries)]
    if not seen:
        return None
    unit, ceiling = ("TB/s", "a plain copy") if what == "decode" else ("TFLOP/s", "a matmul of 8192³")
    top = max(y for record in seen for y in (_ceiling(record), *_rates(record)) if y is not None)
    axis = Axis(f"{what} ({unit})", "rate", log=False, limits=(0.0, 1.06 * top))
    rounds = max(len(entry.times_ns) for entry in seen[0].entries)
    cells = [_cell(title, group, axis, ceiling) for title, group in _groups(seen)]
    return Figure(
        f"speed_{what}",
        f"Speed, {what}: every back end in one interleaved run",
        f"Back ends in turn, each once a round, with {ceiling} (grey) between them, so that all share the clock. Median of "
        f"{rounds} rounds, {seen[0].point.dtype}; error bars: quartiles, where they are longer than the dot.",
        tuple(cells),
        columns=3,
    )


def _groups(records: Iterable[Record]) -> list[tuple[str, list[Record]]]:
    """Group records by cell: head_dim and mask, or head_dim and rows of a decode step."""
    found: dict[tuple[int, int, int], tuple[str, list[Record]]] = {}
    for record in records:
        point = record.point
        group = point.heads // point.kv_heads
        mask, rows, heads = "causal" if point.causal else "full", _many(point.seq_len, "row"), _many(group, "head")
        if point.what == "decode":
            key, what = (point.head_dim, point.seq_len, group), f"{rows} of {heads}"
        else:
            key, what = (point.head_dim, int(point.causal), 0), mask
        found.setdefault(key, (f"d = {point.head_dim}, {what}", []))[1].append(record)
    return [(title, sorted(group, key=_length)) for _, (title, group) in sorted(found.items())]


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count > 1 else ''}"


def _cell(title: str, records: Sequence[Record], axis: Axis, ceiling: str) -> Cell:
    names = list(dict.fromkeys(entry.name for record in records for entry in record.entries if entry.status == "ok"))
    rows = [(float(_length(record)), _ceiling(record), "") for record in records]
    series: list[Series] = list(series_of(f"{ceiling}, between them", "neutral", "beside", rows))
    for name in names:
        line = [
            (float(_length(record)), rate.median / 1e12, (rate.p25 / 1e12, rate.p75 / 1e12), _describe(record, entry))
            for record in records
            if (entry := record.entry(name)) and entry.status == "ok"
            for rate in [speed(record, entry)]
        ]
        series += series_of(f"{name} path", name, "path", [(x, y, said) for x, y, _, said in line], NAMES.get(name, name))
        series += error_bars(NAMES.get(name, name), name, "measure", line)
    return Cell(title, CACHE if records[0].point.what == "decode" else LENGTH, (Panel(axis, tuple(series), 1.5),))


def _length(record: Record) -> int:
    return record.point.kv_len


def _ceiling(record: Record) -> float | None:
    rates = record.copy_bytes_per_s if record.point.bound_by_bytes else record.matmul_flops_per_s
    return spread(rates).median / 1e12 if rates else None


def _rates(record: Record) -> list[float]:
    return [speed(record, entry).median / 1e12 for entry in record.entries if entry.status == "ok"]


def _describe(record: Record, entry: Entry) -> str:
    """Return the hover text of a back end at a point, one fact a line."""
    time, unit = spread(entry.times_ns), "TB/s" if record.point.bound_by_bytes else "TFLOP/s"
    of_ceiling = share(record, entry)
    lines = [
        f"{NAMES.get(entry.name, entry.name)}, {record.point.label}",
        f"{significant(speed(record, entry).median / 1e12)} {unit}, {time_text(time.median)} ±{100 * time.relative:.1f} %",
    ]
    lines += [] if of_ceiling is None else [f"{100 * of_ceiling:.0f} % of the ceiling"]
    lines += [f"host {significant(entry.host_us)} us a call" if entry.host_us else ""]
    ahead = ratio(record) if entry.name == OWN else None
    lines += [f"{ahead.median:.3f} of the best other" if ahead else ""]
    return "\n".join(line for line in lines if line)
