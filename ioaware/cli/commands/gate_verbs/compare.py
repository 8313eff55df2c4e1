"""`ioaware compare OLD NEW`: two runs of measured points."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ioaware.cli.exit_codes import INCONCLUSIVE
from ioaware.cli.options import json_option, output_option, settings, summary_option, verb
from ioaware.cli.output import emit

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.gate.measured.comparison import Comparison
    from ioaware.gate.measured.measured_row import Compared

MOST_ROWS = 40
FILE = click.Path(dir_okay=False, path_type=Path)


@verb
@click.argument("old", metavar="OLD", type=FILE)
@click.argument("new", metavar="NEW", type=FILE)
@click.option("--again", type=FILE, metavar="FILE", help="OLD's version measured again after NEW: a drift is then no growth.")
@click.option("--cross-device", is_flag=True, help="Compare runs of another GPU, driver, Triton, torch or CUDA.")
@click.option("--allow-missing", is_flag=True, help="Points that only NEW has are listed, and are no error.")
@click.option("--strict", is_flag=True, help="Exit with 3 where a time decides nothing.")
@summary_option
@json_option
@output_option("Write here instead of to stdout.")
def compare(
    old: Path,
    new: Path,
    again: Path | None,
    cross_device: bool,
    allow_missing: bool,
    strict: bool,
    summary: Path | None,
    as_json: bool,
    output: Path | None,
) -> int:
    """Compare two runs of measured points: stores, JSONL or JSON files.

    Bytes are compared exactly, times by rank.

    Exits with 1 where bytes or a time have grown, 3 where points are not comparable, 4 where one is missing. A time that
    decides nothing is UNSURE and blocks nothing.
    Example: ioaware compare main.db branch.db --again main-again.db
    """
    from ioaware.gate.ci.comparison_tables import summarise_runs
    from ioaware.gate.measured.comparison import compare_runs, measured_results

    third = measured_results(again) if again else None
    found = compare_runs(
        measured_results(old), measured_results(new), third, cross_device=cross_device, allow_missing=allow_missing
    )
    verbose = settings().verbose
    emit(found.to_dict, lambda: _text(found, verbose), as_json=as_json, output=output)
    summarise_runs(found, summary)
    return found.verdict.exit_code or (INCONCLUSIVE if strict and found.unsure_times else 0)


def _text(found: Comparison, verbose: bool) -> Iterator[RenderableType]:
    from ioaware.cli.plain_parts import Facts, Line
    from ioaware.gate.measured.measured_row import TOO_FEW_ROUNDS

    changed = [
        one for one in found.points if one.blocks or str(one.bytes_verdict) != "SAME" or str(one.time_verdict) == "BETTER"
    ]
    shown = found.points if verbose else tuple(changed[:MOST_ROWS])
    yield Facts([_cells(one) for one in shown])
    if len(shown) < len(found.points):
        yield Line(f"{len(found.points) - len(shown)} more points; -v shows them")
    for point in found.new_points:
        yield Line(f"new: {point}")
    few = sum(one.time_reason == TOO_FEW_ROUNDS for one in found.points)
    why = f", {few} for too few rounds: measure each point more often" if few else ""
    yield Line(f"{found.verdict}: {len(found.points)} points, {found.unsure_times} times decide nothing{why}")


def _cells(one: Compared) -> tuple[str, ...]:
    times = str(one.time_verdict or ""), one.time_reason
    return f"{one.target} {one.params}", str(one.bytes_verdict), one.bytes_reason, *times


command = compare
