"""`ioaware init`: write the gate's first tests, configuration and workflows.

They go into a repository.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ioaware.cli.exit_codes import FAILS, OK, USAGE
from ioaware.cli.options import verb
from ioaware.cli.output import emit, progress

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.gate.setup.setup_plan import Plan


@verb
@click.argument("root", metavar="[DIRECTORY]", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--yes", is_flag=True, help="Write without a question.")
@click.option("--gpu-runner", metavar="LABEL", help="Label of the runners with a GPU.  [default: self-hosted and gpu]")
@click.option(
    "--seconds", type=click.FloatRange(min=1), default=60, show_default=True, help="Give a function up after this time."
)
@click.option(
    "--minutes", type=click.FloatRange(min=0), default=10, show_default=True, help="Try no further function after this time."
)
@click.option("--continue", "more", is_flag=True, help="Try the functions that an earlier run did not get to.")
def init(root: Path, yes: bool, gpu_runner: str | None, seconds: float, minutes: float, more: bool) -> int:
    """Set the gate up in a repository.

    This writes tests with snapshots, configuration, ledger, and two workflows. Needs no GPU.

    Host functions are called as `derive` calls them, to find arguments that work. Everything that would be written is shown
    first. A file that exists is never replaced. Without a terminal to ask on and without --yes nothing is written, exit code 2;
    exits with 1 where the tests that were written do not pass.
    Example: ioaware init --gpu-runner h200
    """
    from ioaware.gate.setup.gated_calls import TimeLimits
    from ioaware.gate.setup.setup_plan import make_plan

    plan = make_plan(root.resolve(), gpu_runner, progress, TimeLimits(seconds, 60 * minutes), more=more)
    emit(dict, lambda: _text(plan), as_json=False)
    if not plan.files:
        click.echo("nothing to do")
        return OK
    if not yes:
        if not sys.stdin.isatty():
            progress("nothing is written: there is no terminal to ask on; ioaware init --yes writes without a question")
            return USAGE
        if not click.confirm("Write this?"):
            click.echo("nothing is written")
            return OK
    return _write(plan)


def _text(plan: Plan) -> Iterator[RenderableType]:
    from rich.text import Text

    from ioaware.cli.terminal_text import printable
    from ioaware.gate.setup.gated_calls import NOT_TRIED

    for file in plan.files:
        yield Text(printable(f"{file.diff()}\n"))
    for call in plan.calls:
        if call.why and call.why != NOT_TRIED:
            yield Text(printable(f"no test: {call.function.place}: {call.why}"))
    for line in plan.kept:
        yield Text(printable(line))
    if plan.tests:
        yield Text(f"pytest --traffic=create fills the snapshots of {plan.tests.as_posix()} in, and the ledger's tests")


def _write(plan: Plan) -> int:
    from ioaware.cli.terminal_text import printable
    from ioaware.gate.setup.first_snapshots import check_can_create, create_snapshots

    if plan.tests:
        check_can_create()
    plan.write()
    for file in plan.files:
        progress(f"wrote {plan.root / file.path}")
    if plan.tests is None:
        return OK
    passed, output = create_snapshots(plan.root, plan.tests)
    click.echo(printable(output.rstrip()))
    again = f"{plan.tests.as_posix()} does not pass; repair it, then pytest {plan.tests.as_posix()} --traffic=create"
    progress("next: pytest --traffic-only, then commit" if passed else again)
    return OK if passed else FAILS


command = init
