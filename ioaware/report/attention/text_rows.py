"""Make rows of text for tables.

They show problems, environments, telemetry, accuracy of outputs, and evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, cast

from ioaware.display.text import clean, params_text
from ioaware.display.units import UNKNOWN, percent_text, significant
from ioaware.report.attention.fact_names import FACTS, fact_text, fact_words
from ioaware.report.comparable_points import Point, Points
from ioaware.report.figures.labels import WORDS
from ioaware.result import BYTES_HOLD, Result

MAX_FACTS, MAX_VALUES = 60, 6


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
    """Return the standing of a target that is not a case.

    It is never drawn, and listed only with a problem.
    """
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


def facts(values: Mapping[str, Any] | None, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield a nested mapping as (dotted name, text) pairs; lists in one line."""
    for name, value in (values or {}).items():
        path = f"{prefix}{clean(name, 60)}"
        if isinstance(value, Mapping):
            yield from facts(cast("Mapping[str, Any]", value), f"{path}.")
        elif isinstance(value, (list, tuple)):
            yield path, ", ".join(clean(item, 120) for item in cast("Sequence[object]", value)[:20]) or "none"
        else:
            yield path, clean(fact_text(path, value))


def environment_rows(environments: Iterable[Mapping[str, Any] | None]) -> list[tuple[str, str]]:
    """Return each fact of the environments once, with its distinct values.

    The most frequent values come first.
    """
    found: dict[str, Counter[str]] = {}
    for one in environments:
        for name, value in facts(one):
            found.setdefault(name, Counter())[value] += 1
    return [(fact_words(name), _distinct(values)) for name, values in list(found.items())[:MAX_FACTS]]


def _distinct(values: Counter[str]) -> str:
    ranked = [value for value, _ in values.most_common()]
    left = len(ranked) - MAX_VALUES
    return "; ".join(ranked[:MAX_VALUES]) + (f"; {left} more" if left > 0 else "")


def telemetry(results: Iterable[Result]) -> list[tuple[str, str, str, str, int]]:
    """Return (name, smallest, median, largest, points) of telemetry numbers.

    Every number of the points' telemetry is included.
    """
    numbers: dict[str, list[float]] = {}
    for result in results:
        for name, value in _numbers(result.telemetry):
            numbers.setdefault(name, []).append(value)
    return [
        (fact_words(name), _measured(name, min(seen)), _measured(name, median(seen)), _measured(name, max(seen)), len(seen))
        for name, seen in list(numbers.items())[:MAX_FACTS]
    ]


def _measured(name: str, value: float) -> str:
    return fact_text(name, value) if name in FACTS else significant(value, 5)


def _numbers(values: Mapping[str, Any] | None, prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in (values or {}).items():
        path = f"{prefix}{clean(name, 60)}"
        if isinstance(value, Mapping):
            yield from _numbers(cast("Mapping[str, Any]", value), f"{path}.")
        elif type(value) in (int, float):
            yield path, float(value)


def accuracy(points: Points) -> list[tuple[str, str, int, str, str]]:
    """Return (source, dtype, outputs checked, worst error, tolerance).

    These are of the drawn points.
    """
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
                WORDS.get(source, source),
                dtype,
                len(checks),
                f"{significant(worst.relative_error, 2)} of {significant(worst.tolerance, 2)} allowed",
                f"{failed} failed" if failed else "all passed",
            )
        )
    return rows


def evidence_rows(rows: Sequence[Mapping[str, Any]], most: int = 40) -> tuple[list[tuple[str, str, str, str, str]], int]:
    """Return (part, where, theory, observed, deviation) of what deviates.

    A number within its limit does not. Return the number of rows left out as well. The largest deviations come first.
    """
    ranked = sorted((row for row in rows if deviation(row) > 0), key=lambda row: -deviation(row))
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
    return shown, len(ranked) - len(shown)


def deviation(row: Mapping[str, Any]) -> float:
    """Return the relative deviation of an observed number, 0 within its limit."""
    expected, observed = row.get("expected"), row.get("observed")
    if type(expected) not in (int, float) or type(observed) not in (int, float):
        return float("inf")
    if row.get("relation") == "at most" and cast(float, observed) <= cast(float, expected):
        return 0.0
    return (
        abs(cast(float, observed) - cast(float, expected)) / abs(cast(float, expected))
        if expected
        else float(observed != expected)
    )


def _deviation_text(row: Mapping[str, Any]) -> str:
    found = deviation(row)
    return "missing" if found == float("inf") else percent_text(found)


def _number(value: object) -> str:
    return (
        f"{value:,}"
        if type(value) is int
        else significant(value, 6)
        if type(value) is float
        else clean(UNKNOWN if value is None else value)
    )
