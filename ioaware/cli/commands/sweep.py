"""`ioaware sweep STUDY --store FILE`: run a study's points.

Each runs in its own process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ioaware.cli import exit_codes
from ioaware.cli.options import json_option, verb
from ioaware.cli.output import emit
from ioaware.result import BYTES_HOLD

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.result import Status
    from ioaware.sweep.points import Point
    from ioaware.sweep.runner import Outcome
    from ioaware.sweep.store import Store
    from ioaware.sweep.study import Study


@verb
@click.argument("study", metavar="STUDY")
@click.option(
    "--store", "path", required=True, type=click.Path(path_type=Path), metavar="FILE", help="The store of the points' records."
)
@click.option("--source", "sources", multiple=True, metavar="SOURCE", help="Only this source of the study; repeatable.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Points at a time.  [default: one per core, at most 4]")
@click.option("--timeout", type=click.FloatRange(1), default=300.0, show_default=True, help="Seconds a point may take.")
@click.option("--retry-failed", is_flag=True, help="Run points again that have a record that is not ok.")
@json_option
def sweep(
    study: str, path: Path, sources: tuple[str, ...], workers: int | None, timeout: float, retry_failed: bool, as_json: bool
) -> int:
    """Run STUDY (a name of `ioaware list`, or a TOML file) into a store.

    A point that crashes, hangs or runs out of memory becomes one failed record; the other points run. After an interruption the
    same command continues. Exits with 3 when a point is not ok, with 5 when this machine cannot run a source.
    Example: ioaware
    sweep forward --store forward.db
    """
    from ioaware.cli.progress import progress_bar
    from ioaware.sweep.runner import run_study
    from ioaware.sweep.store import Store
    from ioaware.sweep.study import find_study

    found = find_study(study)
    with Store(path) as store, progress_bar() as step:

        def done(count: int, total: int, point: Point, status: Status) -> None:
            step(count, total, f"{point.label}: {status}" if status != "ok" else point.label)

        outcome = run_study(
            found,
            store,
            sources=sources or None,
            workers=workers,
            timeout_s=timeout,
            progress=done,
            retry_failed=retry_failed,
        )
        statuses = _count_statuses(found, store, sources)
    emit(
        lambda: _data(found.name, path, outcome, statuses),
        lambda: _text(found.name, path, outcome, statuses),
        as_json=as_json,
    )
    return _exit_code(statuses)


def _count_statuses(study: Study, store: Store, sources: tuple[str, ...]) -> Counter[str]:
    """Count the study's points by status, earlier runs included.

    `open` means without a record.
    """
    from ioaware.sweep.gpu_name import gpu_name

    machine = {"measure": gpu_name()} if "measure" in study.sources else {}
    points = (point for point in study.points if not sources or point.source in sources)
    return Counter(store.status(point, machine=machine.get(point.source, "")) or "open" for point in points)


def _data(study: str, path: Path, outcome: Outcome, statuses: Counter[str]) -> dict[str, Any]:
    return {
        "schema": 1,
        "study": study,
        "store": str(path),
        "points": statuses.total(),
        "statuses": statuses,
        "asked_now": sum(outcome.statuses.values()),
        "failed_now": [{"point": point.label, "problem": problem} for point, problem in outcome.failed],
        "unavailable": outcome.unavailable,
    }


def _text(study: str, path: Path, outcome: Outcome, statuses: Counter[str]) -> Iterator[RenderableType]:
    """Yield the failures, the sources that cannot run here, and a summary line last."""
    from rich.text import Text

    from ioaware.cli.terminal_text import printable

    for point, problem in outcome.failed:
        yield Text(printable(f"failed: {point.label}: {problem}"))
    for source, why in outcome.unavailable.items():
        yield Text(printable(f"not run here: {source}: {why}"))
    counts = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items(), key=lambda item: item[0] != "ok"))
    now = sum(outcome.statuses.values())
    yield Text(printable(f"{study}: {statuses.total()} points in {path}: {counts} ({now} run now)"))


def _exit_code(statuses: Counter[str]) -> int:
    if any(status not in {*BYTES_HOLD, "open"} for status in statuses):
        return exit_codes.INCONCLUSIVE
    return exit_codes.ENVIRONMENT if statuses["open"] else exit_codes.OK


command = sweep
