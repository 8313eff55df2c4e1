"""Write the job summaries of comparisons: measured runs, two versions, budgets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ioaware.gate.ci.job_summary import Table, job_summary_file, write_summary
from ioaware.gate.ci.outcome import SEVERITY

if TYPE_CHECKING:
    from ioaware.gate.budgets import Judgement
    from ioaware.gate.differences import Differences
    from ioaware.gate.measured.comparison import Comparison


def summarise_runs(found: Comparison, given: Path | None) -> None:
    """Append the comparison of two measured runs to a job summary.

    It is the file that was named, or that of the job. Nothing is written where there is neither. Raises `WriteError`.
    """
    path = job_summary_file(given)
    if path is None:
        return
    rows = [
        (str(one.bytes_verdict), str(one.time_verdict or ""), one.target, one.params, one.bytes_reason, one.time_reason)
        for one in found.points
    ]
    blocking = sum(one.blocks for one in found.points)
    title = f"Measured points: {found.verdict}, {blocking:,} of {len(rows):,} failing"
    lines = [f"{found.unsure_times:,} times decide nothing"] if found.unsure_times else []
    lines += [f"new: {point}" for point in found.new_points]
    table = Table(("bytes are", "time is", "target", "point", "why of bytes", "why of time"), rows, blocking)
    write_summary(path, title, lines, table)


def summarise_versions(found: Differences, given: Path | None) -> None:
    """Append the differences of two versions likewise. Raises `WriteError`."""
    path = job_summary_file(given)
    if path is None:
        return
    rows = [
        (
            str(entry.verdict) if entry.gated else "",
            part.new.target,
            entry.name,
            _number(entry.old),
            _number(entry.new),
            entry.reason,
        )
        for part in found.parts
        for entry in sorted(part.rows, key=lambda one: (not one.gated, one.verdict.passes))
        if entry.gated or entry.old != entry.new
    ]
    failing = sum(not part.verdict.passes for part in found.parts)
    lines = [f"{part.new.target}: {part.verdict}: {part.reason}" for part in found.parts]
    blocking = sum(entry.gated and not entry.verdict.passes for part in found.parts for entry in part.rows)
    title = f"Two versions: {found.verdict}, {failing:,} of {len(found.parts):,} failing"
    write_summary(path, title, lines, Table(("verdict", "target", "what", "old", "new", "why"), rows, blocking))


def summarise_budgets(target: str, point: str, found: Sequence[Judgement], given: Path | None) -> None:
    """Append the budgets of a target at a point likewise. Raises `WriteError`."""
    path = job_summary_file(given)
    if path is None:
        return
    rows = [
        (str(one.verdict), target, point, one.budget, one.reason)
        for one in sorted(found, key=lambda one: SEVERITY.index(one.verdict))
    ]
    failing = sum(not one.verdict.passes for one in found)
    title = f"Budgets of {target}: {failing:,} of {len(rows):,} failing"
    write_summary(path, title, [], Table(("verdict", "target", "point", "budget", "why"), rows, failing))


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
