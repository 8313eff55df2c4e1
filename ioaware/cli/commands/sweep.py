"""`ioaware sweep STUDY --store FILE`: run a study's points.

Each runs in its own process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ioaware.cli import exit_codes
from ioaware.cli.options import json_option, verb
from ioaware.cli.output import emit, progress
from ioaware.result import BYTES_HOLD

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.result import Status
    from ioaware.sweep.cluster.connection import Cluster
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
@click.option(
    "--cluster", "where", metavar="gpus|ADDRESS", help="Run on this machine's GPUs, or on the workers of a Dask scheduler."
)
@click.option("--timeout", type=click.FloatRange(1), default=300.0, show_default=True, help="Seconds a point may take.")
@click.option("--retry-failed", is_flag=True, help="Run points again that have a record that is not ok.")
@json_option
def sweep(
    study: str,
    path: Path,
    sources: tuple[str, ...],
    workers: int | None,
    where: str | None,
    timeout: float,
    retry_failed: bool,
    as_json: bool,
) -> int:
    """Run STUDY (a name of `ioaware list`, or a TOML file) into a store.

    A point that crashes, hangs or runs out of memory becomes one failed record; the other points run. After an interruption the
    same command continues. Exits with 3 when a point is not ok, with 5 when this machine cannot run a source.

    Example: ioaware sweep forward --store forward.db
    """
    from ioaware.cli.progress import progress_bar
    from ioaware.sweep.runner import run_study
    from ioaware.sweep.store import Store
    from ioaware.sweep.study import find_study

    found = find_study(study)
    with Store(path) as store, _cluster(where, workers) as cluster, progress_bar() as step:

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
            cluster=cluster,
        )
        statuses = _count_statuses(found, store, sources, outcome.machines)
    emit(
        lambda: _data(found.name, path, outcome, statuses),
        lambda: _text(found.name, path, outcome, statuses),
        as_json=as_json,
    )
    return _exit_code(statuses)


@contextmanager
def _cluster(where: str | None, workers: int | None) -> Generator[Cluster | None]:
    """Open the cluster of `--cluster`, and print its dashboard's address.

    None without the option.
    """
    if where is None:
        yield None
        return
    from ioaware.sweep.cluster.connection import open_cluster

    with open_cluster(where, workers=workers, note=progress) as cluster:
        if cluster.dashboard:
            progress(f"dashboard: {cluster.dashboard}")
        yield cluster


def _count_statuses(study: Study, store: Store, sources: tuple[str, ...], machines: tuple[str, ...]) -> Counter[str]:
    """Count the study's points by status, earlier runs included.

    `open` means without a record.
    """
    from ioaware.sweep.runner import point_status

    points = (point for point in study.points if not sources or point.source in sources)
    return Counter(point_status(store, point, machines) or "open" for point in points)


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
