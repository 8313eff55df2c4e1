"""`ioaware report [TARGET] [-o DIR]`: a page with figures of one target, or of attention."""

from __future__ import annotations

from pathlib import Path

import click

from ioaware.cli.isolated import isolated
from ioaware.cli.options import config_option, gpu_option, output_option, param_option, verb
from ioaware.cli.output import progress
from ioaware.cli.terminal_text import printable
from ioaware.errors import UsageError


@verb
@click.argument("target", metavar="[TARGET]", required=False)
@param_option
@click.option(
    "--over", multiple=True, metavar="NAME=FROM..TO", help="Draw bytes over this range, as in seq_len=1k..64k; repeatable."
)
@click.option(
    "--machine", metavar="NAME|FILE.toml", default="H200", show_default=True, help="The GPU of the roofline and the L2 model."
)
@gpu_option
@config_option
@click.option("--no-source", is_flag=True, help="Show lines of the source by number alone, for third-party kernels.")
@output_option("The directory to write into.", default=Path("report"), show_default=True, metavar="DIR", callback=None)
@isolated
def report(
    target: str | None,
    given: dict[str, str],
    over: tuple[str, ...],
    machine: str,
    gpu: str,
    config: dict[str, str],
    no_source: bool,
    output: Path,
) -> None:
    """Write a page and its PNGs: of TARGET its formulas, hot lines, bytes over parameters, roofline and launches.

    Needs no GPU; measured points that ship with ioaware appear where they are of the same target. Without TARGET: the report
    on attention, measured live where there is a GPU. Prints the path of report.html last.
    Example: ioaware report flash2 -p heads=16 --over seq_len=1k..64k
    """
    if target is None:
        if given or over or config or no_source:
            raise UsageError(
                "-p, --over, --config and --no-source need a TARGET", "For example: ioaware report flash2 -p heads=16"
            )
        path = _attention(output)
    else:
        path = _of_target(target, given, over, machine, gpu, config, output, with_text=not no_source)
    click.echo(printable(str(path)))


def _of_target(
    target: str,
    given: dict[str, str],
    over: tuple[str, ...],
    machine: str,
    gpu: str,
    config: dict[str, str],
    output: Path,
    *,
    with_text: bool,
) -> Path:
    from ioaware._atomic_file import make_directory
    from ioaware.cli.target_report import findings_of
    from ioaware.report.pages.document import write_document
    from ioaware.report.pages.target_page import target_page
    from ioaware.report.svg.rasterise import check_rasteriser

    check_rasteriser()
    make_directory(output)
    found = findings_of(target, given, over=over, machine=machine, gpu=gpu, config=config)
    progress("drawing")
    return write_document(target_page(found, with_text=with_text), output)


def _attention(output: Path) -> Path:
    """Measure or read what the report on attention shows, and write it."""
    from ioaware._atomic_file import make_directory
    from ioaware.cli.progress import progress_bar
    from ioaware.cli.report_data import measurements, roofs, theory
    from ioaware.environment import software_environment
    from ioaware.report.assemble import complete
    from ioaware.report.build import build_report
    from ioaware.report.kernel_points import pairs
    from ioaware.sweep.claim_evidence import recorded, recorded_race
    from ioaware.sweep.verify import verify

    make_directory(output)
    progress("tracing")
    with progress_bar() as step:
        traced = theory(step)
    progress("measuring, or reading recorded measurements")
    with progress_bar() as step:
        measured = measurements(output, step)
    progress("predicting every curve")
    with progress_bar() as step:
        results = complete([*traced, *measured.results], step)
    progress("verifying the theorems")
    with progress_bar() as step:
        claims = verify(measurements=measured.results, progress=step)
    return build_report(
        output,
        results,
        claims,
        live=measured.live,
        roofs=roofs(measured.results),
        kernels=pairs(recorded()),
        race=recorded_race(),
        missing=measured.missing,
        environment=software_environment(),
        progress=progress,
    )


command = report
