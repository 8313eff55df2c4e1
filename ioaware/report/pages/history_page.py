"""The page of a project's history.

A line for each kernel with its bytes over the runs, the worst first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ioaware.display.text import clean
from ioaware.display.units import bytes_text, percent_text
from ioaware.report.pages.document import Document
from ioaware.report.svg.sparkline import draw_sparkline

MAX_LINES, MAX_RUNS = 2000, 50


@dataclass(frozen=True, slots=True)
class RunLabel:
    """A run as the page lists it.

    Its name, its commit and its time, empty where they are unknown.
    """

    name: str
    commit: str = ""
    time: str = ""


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One kernel at one point.

    Bytes of each run, None where it has none, and the verdict of the last run.
    """

    name: str
    point: str
    place: str
    bytes: tuple[int | None, ...]
    verdict: str = ""
    fails: bool = False

    @property
    def growth(self) -> float:
        """Return the last known bytes over the least ever, less 1."""
        known = [value for value in self.bytes if value is not None]
        return known[-1] / min(known) - 1 if known and min(known) else 0.0

    @property
    def gone(self) -> bool:
        """Return whether the last run has no bytes of it."""
        return not self.bytes or self.bytes[-1] is None


def worst_lines(lines: Sequence[HistoryLine]) -> list[HistoryLine]:
    """Return the lines.

    Failing ones, then those that vanished, then by growth over the least and by bytes.
    """
    return sorted(lines, key=lambda one: (not one.fails, not one.gone, -one.growth, -(one.bytes[-1] or 0), one.name, one.point))


def history_page(title: str, runs: Sequence[RunLabel], lines: Sequence[HistoryLine]) -> Document:
    """Return the page. Needs no script; texts are escaped once."""
    ordered = worst_lines(lines)
    grown, failing, gone = (sum(getattr(one, name) > 0 for one in ordered) for name in ("growth", "fails", "gone"))
    values: dict[str, Any] = {
        "headline": f"{_count(len(ordered), 'line')} over {_count(len(runs), 'run')}. Failing: {failing:,}. "
        f"Not in the last run: {gone:,}. More bytes than in an earlier run: {grown:,}.",
        "rows": [_row(one, runs) for one in ordered[:MAX_LINES]],
        "rows_left": max(0, len(ordered) - MAX_LINES),
        "runs": [{"name": clean(run.name), "commit": clean(run.commit), "time": clean(run.time)} for run in runs[-MAX_RUNS:]][
            ::-1
        ],
        "runs_left": max(0, len(runs) - MAX_RUNS),
        "made": "",
    }
    return Document("history.html", title, values, ())


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _row(line: HistoryLine, runs: Sequence[RunLabel]) -> dict[str, Any]:
    known = [value for value in line.bytes if value is not None]
    first, last = (known[0], known[-1]) if known else (None, None)
    change = last / first - 1 if first and last is not None else None
    described = f"{line.name}: bytes over {len(line.bytes)} runs, first {bytes_text(first)}, last {bytes_text(last)}"
    return {
        "name": clean(line.name),
        "point": clean(line.point),
        "place": clean(line.place),
        "spark": draw_sparkline(line.bytes, clean(described)).svg,
        "last": "not in the last run" if line.gone else bytes_text(last),
        "last_value": last or 0,
        "change": "" if change is None else percent_text(change),
        "change_value": change or 0.0,
        "growth": percent_text(line.growth),
        "growth_value": line.growth,
        "verdict": clean(line.verdict),
        "fails": line.fails,
        "runs": f"{len(known)} of {len(runs)}",
    }
