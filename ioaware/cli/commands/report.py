"""`ioaware report [TARGET] [-o DIR]`: a page with figures.

It is a page of one target, or of attention.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ioaware.cli.isolated import isolated
from ioaware.cli.options import config_option, machine_option, machines_gpu_option, output_option, param_option, verb
from ioaware.cli.output import progress
from ioaware.cli.terminal_text import printable
from ioaware.errors import UsageError


@verb
@click.argument("target", metavar="[TARGET]", required=False)
@param_option
@click.option("--over", multiple=True, metavar="NAME=FROM..TO", help="Draw bytes over a range, as in seq_len=1k..64k.")
@machine_option("The GPU of the roofline and the L2 model.")
@click.option("--compare", metavar="OLD", help="An old version of TARGET: what changed, as in --compare OLD NEW.")
@click.option(
    "--store", type=click.Path(path_type=Path), metavar="FILE", help="A sweep's store: its points, or TARGET's measured ones."
)
@click.option(
    "--study", metavar="NAME|FILE.toml", help="The points of a study: from the store, or predicted and recorded ones."
)
@machines_gpu_option
@config_option
@click.option("--no-source", is_flag=True, help="Show lines of the source by number alone, for third-party kernels.")
@output_option("The directory to write into.", default=Path("report"), show_default=True, metavar="DIR", callback=None)
@isolated
def report(
    target: str | None,
    compare: str | None,
    store: Path | None,
    study: str | None,
    output: Path,
    **how: Any,
) -> None:
    """Write a page and its PNGs.

    They show TARGET's formulas, hot lines, bytes over parameters, roofline and launches.

    Needs no GPU; measured points that ship with ioaware appear where they are of the same target. Without TARGET: a store,
    a study, or the report on attention, measured live where there is a GPU. Prints the path of report.html last.
    Example: ioaware report flash2 -p heads=16 --over seq_len=1k..64k
    """
    _check(target, compare, store, study, how)
    if target is None and store is None and study is None:
        path = _attention(output)
    else:
        path = _page(target, compare, store, study, output, how)
    click.echo(printable(str(path)))


def _check(target: str | None, compare: str | None, store: Path | None, study: str | None, how: dict[str, Any]) -> None:
    """Raise `UsageError` for options that exclude each other, or that need a target."""
    if (study is not None and (target or compare) is not None) or (compare is not None and store is not None):
        raise UsageError(
            "TARGET, --compare and --study are different pages", "Give one of them; --store goes with TARGET or --study."
        )
    if compare is not None and target is None:
        raise UsageError(
            "--compare needs two versions, the old and the new one", "For example: ioaware report --compare OLD NEW -o DIR"
        )
    needy = any(how[name] for name in ("given", "over", "config", "no_source"))
    if target is None and needy:
        raise UsageError("-p, --over, --config and --no-source need a TARGET", "For example: ioaware report flash2 -p heads=16")


def _page(
    target: str | None,
    compare: str | None,
    store: Path | None,
    study: str | None,
    output: Path,
    how: dict[str, Any],
) -> Path:
    """Write any page but attention's."""
    from ioaware._atomic_file import make_directory
    from ioaware.cli.target_report import compared, findings_of
    from ioaware.report.pages.document import write_document
    from ioaware.report.svg.rasterise import check_rasteriser

    check_rasteriser()
    make_directory(output)
    with_text = not how.pop("no_source")
    if compare is not None and target is not None:
        document = compared(compare, target, with_text=with_text, **how)
    elif target is not None:
        from ioaware.report.pages.target_page import target_page

        found = findings_of(target, store=store, **how)
        document = target_page(found, with_text=with_text)
    else:
        from ioaware.cli.store_report import document_of

        document = document_of(store, study)
    progress("drawing")
    return write_document(document, output)


def _attention(output: Path) -> Path:
    """Measure or read what the report on attention shows, and write it."""
    from datetime import UTC, datetime

    from ioaware._atomic_file import make_directory
    from ioaware.cli.report_data import gathered
    from ioaware.report.attention.attention_page import attention_page
    from ioaware.report.pages.document import write_document
    from ioaware.report.svg.rasterise import check_rasteriser

    check_rasteriser()
    make_directory(output)
    document = attention_page(gathered(output), datetime.now(UTC))
    progress("drawing")
    return write_document(document, output)


command = report
