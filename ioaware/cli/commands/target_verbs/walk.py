"""`ioaware walk TARGET`: the kernels step by step, with the tiles they move.

The tiles are given for each step.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ioaware._atomic_file import atomic_write
from ioaware.cli.exit_codes import FAILS, of_result
from ioaware.cli.isolated import isolated
from ioaware.cli.options import config_option, json_option, output_option, param_option, settings, verb
from ioaware.cli.output import emit
from ioaware.cli.terminal_text import printable
from ioaware.errors import UsageError

if TYPE_CHECKING:
    from ioaware.walkthrough.walk import Walk

LIMIT = 40


def _program(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...] | None:  # noqa: ARG001
    if value is None:
        return None
    parts = value.split(",")
    if not all(part.strip().isdecimal() for part in parts) or len(parts) > 3:
        raise UsageError(f"--program {value} is not a program of a grid", "Give its indices: --program 2, or --program 2,0,1.")
    return tuple(map(int, parts))


@verb
@click.argument("target", metavar="TARGET")
@param_option
@config_option
@click.option(
    "--input", "source", metavar="seed|FILE.npz", help="Inputs: the toy example's Q, K, V, or arrays q, k, v of a file."
)
@click.option("--values", is_flag=True, help="Show S, P, m, l and O on chip, and what is written.")
@click.option("--value", "names", multiple=True, metavar="NAME", help="Show this variable of the kernel; repeatable.")
@click.option("--program", callback=_program, metavar="X[,Y[,Z]]", help="Show only this program of each grid.")
@click.option("--limit", type=click.IntRange(min=1), metavar="STEPS", help=f"Show at most so many.  [default: {LIMIT} as text]")
@json_option
@output_option("Write here instead of to stdout; FILE.html plays the walk in a browser.")
@isolated
def walk(
    target: str,
    given: dict[str, str],
    config: dict[str, str],
    source: str | None,
    values: bool,
    names: tuple[str, ...],
    program: tuple[int, ...] | None,
    limit: int | None,
    as_json: bool,
    output: Path | None,
) -> int:
    """Walk through TARGET's kernels step by step.

    It shows which tiles move between HBM and on-chip memory at each step.

    Runs the kernels in Triton's interpreter and reports the real accesses, grouped by program and loop iteration. A running
    count of bytes ends at the total of trace and predict. Exits with 1 when it does not, or when the output does not match
    the target's reference. Use small sizes. Example: ioaware walk flash1 -p seq_len=6 -p head_dim=2 -p sram_elements=20
    --input seed --values
    """
    from ioaware.cli.walk_tables import walk_text
    from ioaware.targets.signature import infer_value
    from ioaware.targets.target import load_target
    from ioaware.walkthrough.walk import walk as run_walked

    loaded = load_target(target)
    chosen = {name: infer_value(text) for name, text in config.items()}
    quiet = settings().quiet

    def report(sentence: str) -> None:
        if not quiet:
            click.echo(printable(f"ioaware: {sentence}"), err=True)

    params = loaded.resolve(given, typed=True)
    as_page = output is not None and output.suffix == ".html"
    if as_page and (program or limit):
        raise UsageError("a page holds the whole walk", "Leave out --program and --limit, or use smaller sizes.")
    keep = values or bool(names) or as_page
    walked = run_walked(loaded, params, source=source, keep_values=keep, autotune=chosen, report=report)
    if unknown := [name for name in names if not any(name in step.on_chip for step in walked.steps)]:
        known = sorted({name for step in walked.steps for name in step.on_chip})
        raise UsageError(f"no step has a variable {unknown[0]}", f"Variables: {', '.join(known) or 'none'}.")
    if not list(walked.chosen(program)):
        raise UsageError(f"no launch has a program {program}", f"Grids: {', '.join(str(one.grid) for one in walked.launches)}.")
    if as_page and output:
        _write_page(walked, output)
        return _code(walked)
    emit(
        lambda: walked.to_dict(steps=limit, program=program),
        lambda: walk_text(walked, limit=limit or LIMIT, program=program, values=names if keep else None),
        as_json=as_json,
        output=output,
    )
    return _code(walked)


def _code(walked: Walk) -> int:
    return of_result(walked.traced) if walked.agrees else FAILS


def _write_page(walked: Walk, output: Path) -> None:
    """Write the page that plays the walk and print its path."""
    from ioaware.report.walk_figure import walk_page

    with atomic_write(output) as place:
        place.write_text(walk_page(walked), encoding="utf-8")
    click.echo(printable(str(output)))


command = walk
