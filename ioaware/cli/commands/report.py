"""`ioaware report [TARGET] [-o DIR]`: a page with figures.

It is a page of one target, or of attention.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ioaware.cli.isolated import isolated
from ioaware.cli.options import config_option, machine_option, machines_gpu_option, output_option, param_option, verb
from ioaware.cli.output import progress
from ioaware.cli.terminal_text import printable
from ioaware.errors import UsageError

if TYPE_CHECKING:
    from ioaware.report.pages.document import Document

OF_TARGETS = {
    "given": "-p",
    "over": "--over",
    "machine": "--machine",
    "gpu": "--gpu",
    "config": "--config",
    "no_source": "--no-source",
}
"""Options that only the page of a target has, by the names of their parameters."""


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
    _check(target, compare, store, study)
    if target is None and store is None and study is None:
        path = _attention(output)
    else:
        path = _page(target, compare, store, study, output, how)
    click.echo(printable(str(path)))


def _check(target: str | None, compare: str | None, store: Path | None, study: str | None) -> None:
    """Raise `UsageError` for options that exclude each other, or that need a target."""
    if (study is not None and (target or compare) is not None) or (compare is not None and store is not None):
        raise UsageError(
            "TARGET, --compare and --study are different pages", "Give one of them; --store goes with TARGET or --study."
        )
    if compare is not None and target is None:
        raise UsageError(
            "--compare needs two versions, the old and the new one", "For example: ioaware report --compare OLD NEW -o DIR"
        )
    if target is None and (needy := [flag for name, flag in OF_TARGETS.items() if _is_typed(name)]):
        raise UsageError(f"{needy[0]} needs a TARGET", "For example: ioaware report flash2 -p heads=16")


def _is_typed(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def _page(
    target: str | None,
    compare: str | None,
    store: Path | None,
    study: str | None,
    output: Path,
    how: dict[str, Any],
) -> Path:
    """Write any page but attention's."""
    from ioaware._atomic_file import new_directory
    from ioaware.report.pages.document import write_document
    from ioaware.report.svg.rasterise import check_rasteriser

    check_rasteriser()
    with new_directory(output):
        document = _document(target, compare, store, study, how)
        progress("drawing")
        return write_document(document, output)


def _document(
    target: str | None,
    compare: str | None,
    store: Path | None,
    study: str | None,
    how: dict[str, Any],
) -> Document:
    """Return the page of a target, of two versions, or of a store or study."""
    with_text = not how.pop("no_source")
    if compare is not None and target is not None:
        from ioaware.cli.reports.target_report import compared

        return compared(compare, target, with_text=with_text, **how)
    if target is not None:
        from ioaware.cli.reports.target_report import findings_of
        from ioaware.report.pages.target_page import target_page

        return target_page(findings_of(target, store=store, **how), with_text=with_text)
    from ioaware.cli.reports.store_report import document_of

    return document_of(store, study)


def _attention(output: Path) -> Path:
    """Measure or read what the report on attention shows, and write it."""
    from dataclasses import replace
    from datetime import UTC, datetime

    from ioaware._atomic_file import new_directory
    from ioaware.cli.reports.report_data import gathered
    from ioaware.report.svg.rasterise import check_rasteriser

    check_rasteriser()
    with new_directory(output):
        contents, judge = gathered(output)
        from ioaware.cli.reports.picture_processes import drawing
        from ioaware.report.attention.attention_page import attention_figures, attention_page
        from ioaware.report.comparable_points import Points
        from ioaware.report.pages.document import write_document

        figures = attention_figures(contents, Points(contents.results))
        with drawing(figures) as png:
            document = attention_page(replace(contents, claims=judge()), datetime.now(UTC), figures)
            progress("drawing")
            return write_document(document, output, png)


command = report
