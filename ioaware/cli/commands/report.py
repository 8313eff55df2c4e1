"""`ioaware report [-o DIR]`: theory, traces and measurements in one HTML file with figures."""

from __future__ import annotations

from pathlib import Path

import click

from ioaware.cli.options import output_option, verb
from ioaware.cli.output import progress
from ioaware.cli.terminal_text import printable


@verb
@output_option("The directory to write into.", default=Path("report"), show_default=True, metavar="DIR", callback=None)
def report(output: Path) -> None:
    """Write the report: predicted curves, traced and measured points, and the verdicts on the theorems.

    With a GPU it measures the study `live`, a few minutes, and continues where it was interrupted. Without one it shows the
    measurements of an H200 that ship with ioaware. Prints the path of report.html last.
    """
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
    path = build_report(
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
    click.echo(printable(str(path)))


command = report
