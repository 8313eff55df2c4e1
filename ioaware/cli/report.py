"""`ioaware report [-o DIR]`: theory, traces and measurements in one HTML file with its figures."""

from __future__ import annotations

from pathlib import Path

import click

from ioaware.cli.options import output_option, verb


@verb
@output_option("The directory to write into.", default=Path("report"), show_default=True, metavar="DIR")
@click.option("--store", "path", type=click.Path(path_type=Path), metavar="FILE", help="Use this store's records too.")
def report(output: Path, path: Path | None) -> None:
    """The report: predicted curves, traced marks, measured points and the verdicts on the theorems.

    Without a GPU it overlays the measurements recorded on an H200 that ship with ioaware. Prints the report's path last.
    """
