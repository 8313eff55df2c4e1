"""Lay out the report's tables as rows of text: points, problems, environments, telemetry, evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, cast

from ioaware.display.text import clean, params_text
from ioaware.display.units import UNKNOWN, bytes_text, percent_text, significant, time_text, times_text
from ioaware.report.comparable_points import Point, Points
from ioaware.report.figures.labels import over_compulsory, rate_tflops
from ioaware.report.kernel_points import Pair
from ioaware.result import BYTES_HOLD, Result

MAX_FACTS = 60


@dataclass(frozen=True, slots=True)
class Field:
    """A table cell: its text, and the number it is sorted by, if any."""

    text: str
    number: float | None = None


TEXT_COLUMNS = ("algorithm", "mask", "dtype", "B_r×B_c")
NUMBER_COLUMNS = (
    "N", "d", "heads", "requested", "÷ predicted", "HBM", "÷ compulsory", "extra", "time", "TFLOP/s", "output error",
)  # fmt: skip


def point_rows(points: Points, *sources: str) -> list[tuple[Field, ...]]:
    """Return one row per point that figures may show, in the order of the columns above."""
    return [_row(points, point) for point in points.all if point.source in sources and point.standing != "listed"]


def _row(points: Points, point: Point) -> tuple[Field, ...]:
    config, result = point.config, point.result
    ratio, excess = points.requested_ratio(point), over_compulsory(points, point)
    shown = point.standing == "shown"
    time_ns, rate = (point.time_ns, rate_tflops(points, point)) if shown and point.source == "measure" else (None, None)
    error = None if result.check is None else result.check.relative_error
    return (
        Field(config.algorithm if result.status == "ok" else f"{config.algorithm}, {result.status}"),
        Field("causal" if config.causal else "full"),
        Field(config.dtype),
        Field(config.blocks, config.outer_block),
        Field(f"{point.seq_len:,}" + ("" if point.key.kv_len == point.seq_len else f" × {point.key.kv_len:,}"), point.seq_len),
        Field(str(config.head_dim), config.head_dim),
        Field(f"{point.num_heads:,}", point.num_heads),
        Field(bytes_text(point.requested_bytes, padded=True), point.requested_bytes),
        Field(UNKNOWN if ratio is None else f"{ratio:.5f}", ratio),
        Field(bytes_text(point.hbm_bytes, padded=True), point.hbm_bytes),
        Field(UNKNOWN if excess is None else times_text(excess, padded=True), excess),
        Field(bytes_text(point.extra_bytes, padded=True), point.extra_bytes),
        Field(time_text(time_ns, padded=True), time_ns),
        Field(UNKNOWN if rate is None else significant(rate, padded=True), rate),
        Field(UNKNOWN if error is None else f"{error:.1e}", error),
    )


KERNEL_COLUMNS = (
    "kernel", "parameters", "reads, derived", "measured ÷ derived", "writes and adds, derived", "measured ÷ derived", "HBM",
    "÷ compulsory", "time", "TFLOP/s issued", "FLOP per clock and SM", "status",
)  # fmt: skip


def kernel_rows(kernels: Iterable[Pair]) -> list[tuple[str, ...]]:
    """Return one row per measured point of a third-party kernel, in the order of the columns above."""
    return [_kernel_row(pair) for pair in kernels]


def _kernel_row(pair: Pair) -> tuple[str, ...]:
    floor = pair.derived.compulsory if pair.derived else None
    compulsory = floor.total_bytes if floor else None
    steady = pair.measured.status == "ok"
    rate = pair.flops_per_clock_and_sm if steady else None
    return (
        clean(pair.name),
        params_text(pair.measured.params),
        bytes_text(pair.derived_read_bytes),
        _ratio(pair.read_ratio),
        bytes_text(pair.derived_write_bytes),
        _ratio(pair.write_ratio),
        bytes_text(pair.hbm_bytes),
        times_text(pair.hbm_bytes / compulsory) if pair.hbm_bytes and compulsory else UNKNOWN,
        time_text(pair.time_ns) if steady else UNKNOWN,
        significant(pair.flops / pair.time_ns / 1e3) if steady and pair.flops and pair.time_ns else UNKNOWN,
        significant(rate) if rate else UNKNOWN,
        pair.measured.status,
    )


def _ratio(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.5f}"


@dataclass(frozen=True, slots=True)
class Problem:
    """A point that is not drawn, or drawn apart, and why."""

    target: str
    source: str
    params: str
    status: str
    why: str


def problems(results: Iterable[Result], points: Points) -> list[Problem]:
    """Return every failed, impossible, unstable or unverified point."""
    standing = {id(point.result): point.standing for point in points.all}
    return [_problem(result) for result in results if standing.get(id(result), _bare_standing(result)) != "shown"]


def _bare_standing(result: Result) -> str:
    """Return the standing of a target that is not a case: it is never drawn, and listed only with a problem."""
    return "shown" if result.status in BYTES_HOLD and (result.check is None or result.check.passed) else "listed"


def _problem(result: Result) -> Problem:
    why = "; ".join(clean(note) for note in result.notes[:6])
    status: str = result.status
    if status == "ok":
        status = "unverified" if result.check is None else "wrong output"
        if result.check is not None:
            found = f"relative error {result.check.relative_error:.2g}, allowed {result.check.tolerance:.2g}"
            why = f"{found}; {why}" if why else found
    return Problem(clean(result.target), result.source, params_text(result.params), status, why or "no reason recorded")


def notes(points: Points) -> list[tuple[str, int]]:
    """Return the distinct notes of the drawn measured points with their counts, most frequent first."""
    counts: dict[str, int] = {}
    for point in points.of("measure", standing=("shown", "unstable")):
        for note in dict.fromkeys(clean(note) for note in point.result.notes):
            counts[note] = counts.get(note, 0) + 1
    return sorted(counts.items(), key=lambda item: -item[1])[:MAX_FACTS]


def facts(values: Mapping[str, Any] | None, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield a nested mapping as (dotted name, text) pairs; lists in one line."""
    for name, value in (values or {}).items():
        path = f"{prefix}{clean(name, 60)}"
        if isinstance(value, Mapping):
            yield from facts(cast("Mapping[str, Any]", value), f"{path}.")
        elif isinstance(value, (list, tuple)):
            yield path, ", ".join(clean(item, 120) for item in cast("Sequence[object]", value)[:20]) or "none"
        else:
            yield path, clean(value)


@dataclass(frozen=True, slots=True)
class Environment:
    """One environment and the number of its results."""

    count: int
    facts: tuple[tuple[str, str], ...]


def environments(results: Iterable[Result]) -> list[Environment]:
    """Return the distinct environments of measured results, most frequent first."""
    counts: dict[tuple[tuple[str, str], ...], int] = {}
    for result in results:
        if result.source == "measure" and result.environment:
            seen = tuple(facts(result.environment))[:MAX_FACTS]
            counts[seen] = counts.get(seen, 0) + 1
    return [Environment(count, seen) for seen, count in sorted(counts.items(), key=lambda item: -item[1])]


def telemetry(results: Iterable[Result]) -> list[tuple[str, str, str, str, int]]:
    """Return (name, smallest, median, largest, points) of every number of the points' telemetry."""
    numbers: dict[str, list[float]] = {}
    for result in results:
        for name, value in _numbers(result.telemetry):
            numbers.setdefault(name, []).append(value)
    return [
        (name, significant(min(seen), 5), significant(median(seen), 5), significant(max(seen), 5), len(seen))
        for name, seen in list(numbers.items())[:MAX_FACTS]
    ]


def _numbers(values: Mapping[str, Any] | None, prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in (values or {}).items():
        path = f"{prefix}{clean(name, 60)}"
        if isinstance(value, Mapping):
            yield from _numbers(cast("Mapping[str, Any]", value), f"{path}.")
        elif type(value) in (int, float):
            yield path, float(value)


def accuracy(points: Points) -> list[tuple[str, str, int, str, str]]:
    """Return (source, dtype, outputs checked, worst error, tolerance) of the drawn points."""
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points.all:
        if point.result.check is not None:
            groups.setdefault((point.source, point.config.dtype), []).append(point)
    rows: list[tuple[str, str, int, str, str]] = []
    for (source, dtype), group in sorted(groups.items()):
        checks = [point.result.check for point in group if point.result.check is not None]
        worst = max(checks, key=lambda check: check.relative_error / check.tolerance)
        failed = sum(not check.passed for check in checks)
        rows.append(
            (
                source,
                dtype,
                len(checks),
                f"{worst.relative_error:.1e} of {worst.tolerance:.0e} allowed",
                f"{failed} failed" if failed else "all passed",
            )
        )
    return rows


def evidence_rows(rows: Sequence[Mapping[str, Any]], most: int = 40) -> tuple[list[tuple[str, str, str, str, str]], int]:
    """Return (part, where, theory, observed, deviation), largest deviations first, and the number left out."""
    ranked = sorted(rows, key=lambda row: -_deviation(row))
    shown = [
        (
            clean(row.get("part", "")),
            clean(row.get("where", "")),
            _number(row.get("expected")),
            _number(row.get("observed")),
            _deviation_text(row),
        )
        for row in ranked[:most]
    ]
    return shown, max(0, len(rows) - most)


def _deviation(row: Mapping[str, Any]) -> float:
    expected, observed = row.get("expected"), row.get("observed")
    if type(expected) not in (int, float) or type(observed) not in (int, float):
        return float("inf")
    return (
        abs(cast(float, observed) - cast(float, expected)) / abs(cast(float, expected))
        if expected
        else float(observed != expected)
    )


def _deviation_text(row: Mapping[str, Any]) -> str:
    deviation = _deviation(row)
    return "missing" if deviation == float("inf") else percent_text(deviation)


def _number(value: object) -> str:
    return (
        f"{value:,}"
        if type(value) is int
        else significant(value, 6)
        if type(value) is float
        else clean(UNKNOWN if value is None else value)
    )
