"""`ioaware diff OLD NEW`: two versions of a target side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ioaware.cli.options import config_option, gpu_option, json_option, output_option, param_option, summary_option, verb
from ioaware.cli.output import emit

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.gate.difference import Difference, Entry


@verb
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@param_option
@gpu_option
@config_option
@click.option("--cross-toolchain", is_flag=True, help="Sides of two Tritons or GPUs may be SAME, where they are proven equal.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True), default=3600.0, show_default=True,
              metavar="SECONDS", help="Stop a side after this time.")  # fmt: skip
@summary_option
@json_option
@output_option("Write here instead of to stdout.")
def diff(
    old: str,
    new: str,
    given: dict[str, str],
    gpu: str,
    config: dict[str, str],
    cross_toolchain: bool,
    timeout_s: float,
    summary: Path | None,
    as_json: bool,
    output: Path | None,
) -> int:
    """Compare two versions of a target: formulas and resources.

    They are formulas, sectors, shared memory, registers, spills and TMA. Needs no GPU.

    OLD and NEW are targets, REVISION:file.py:function of a git repository, files of `ioaware derive --json -o`, or stores.
    Exits with 1 where NEW moves more bytes, spills, or lost a TMA load; with 3 where that cannot be decided.
    Example: ioaware diff HEAD~1:scale.py:scale scale.py:scale -p "x=f16[rows=4096, cols=2048]"
    """
    from ioaware.gate.ci.comparison_tables import summarise_versions
    from ioaware.gate.differences import differences
    from ioaware.gate.sides import Request, rows_of_sides

    olds, news = rows_of_sides((old, new), Request(given, gpu, config, timeout_s))
    found = differences(olds, news, cross_toolchain=cross_toolchain)
    emit(found.to_dict, lambda: _text(found.parts), as_json=as_json, output=output)
    summarise_versions(found, summary)
    return found.verdict.exit_code


def _text(parts: tuple[Difference, ...]) -> Iterator[RenderableType]:
    from rich.text import Text

    from ioaware.cli.render import assignments, table
    from ioaware.cli.terminal_text import printable

    for part in parts:
        names = dict.fromkeys((part.old.target, part.new.target))
        yield Text(printable(f"diff {' -> '.join(names)}  {assignments(part.new.params)}\n"))
        yield table(("", "old", "new", "verdict", "why"), (_cells(entry) for entry in part.rows), left=1)
        yield Text("")
        for entry in part.rows:
            if entry.old_formula != entry.new_formula:
                yield Text(printable(f"{entry.name}: {entry.old_formula}\n{' ' * len(entry.name)}  {entry.new_formula}"))
        yield Text(printable(f"{part.verdict}: {part.reason}"))


def _cells(entry: Entry) -> tuple[str, ...]:
    def number(value: int | None) -> str:
        return "unknown" if value is None else f"{value:,}"

    verdict = str(entry.verdict) if entry.gated else "" if entry.old == entry.new else "differs"
    return entry.name.replace("_", " "), number(entry.old), number(entry.new), verdict, entry.reason


command = diff
