"""`ioaware coverage`: the share of a repository's kernels that are gated.

A test gates their traffic.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ioaware.cli.exit_codes import BASELINE, FAILS, OK
from ioaware.cli.options import json_option, output_option, verb
from ioaware.cli.output import emit, progress

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.gate.repository.coverage import Coverage


@verb
@click.argument("root", metavar="[DIRECTORY]", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--require",
    type=click.FloatRange(0, 100),
    metavar="PERCENT",
    help="Exit with 1 where fewer are gated.  [default: coverage of [tool.ioaware] in pyproject.toml]",
)
@click.option("--write", "write", is_flag=True, help="Write the ledger: new kernels pending since today, gone ones removed.")
@json_option
@output_option("Write here instead of to stdout.")
def coverage(root: Path, require: float | None, write: bool, as_json: bool, output: Path | None) -> int:
    """List the Triton and Gluon kernels below DIRECTORY by their gates.

    They are gated by a test, exempt with a reason, or pending.

    The ledger traffic-ledger.toml says which; pytest --traffic=create records the gates in it. With --require, exits with 1
    where a smaller share is gated. It exits with 4 where there is no ledger, where that names what is gone, and where it lacks
    a kernel or why one is pending.
    Example: ioaware coverage --require 80
    """
    from ioaware.gate.repository.coverage import completed
    from ioaware.gate.repository.coverage import coverage as cover
    from ioaware.gate.repository.gate_config import read_config
    from ioaware.gate.repository.kernel_finder import find_kernels
    from ioaware.gate.repository.ledger import LEDGER, read_ledger, write_ledger

    root = root.resolve()
    if require is None:
        require = read_config(root).coverage
    ledger = read_ledger(root)
    if write:
        ledger = completed(ledger, dict.fromkeys(find_kernels(root), f"since {date.today().isoformat()}"))
        write_ledger(root, ledger)
        progress(f"wrote {root / LEDGER}")
    found = cover(root, ledger)
    emit(found.to_dict, lambda: _text(found), as_json=as_json, output=output)
    if require is None:
        return OK
    if ledger is None or found.stale or found.share is None:
        return BASELINE
    return OK if found.share >= require else FAILS


def _text(found: Coverage) -> Iterator[RenderableType]:
    from rich.text import Text

    from ioaware.cli.render import facts
    from ioaware.cli.terminal_text import printable

    yield facts([(kernel, state, why) for kernel, state, why in found.kernels])
    for line in found.stale:
        yield Text(printable(f"stale: {line}"))
    counts = ", ".join(f"{found.count(state)} {state}" for state in ("gated", "exempt", "pending"))
    yield Text(f"{counts}: " + ("no kernel to gate" if found.share is None else f"{found.share:.1f} % gated"))


command = coverage
