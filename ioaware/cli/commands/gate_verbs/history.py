"""`ioaware history FILE...`: a page of stored runs."""

from __future__ import annotations

from pathlib import Path

import click

from ioaware.cli.exit_codes import OK
from ioaware.cli.options import verb

PAGE = "index.html"


@verb
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", "folder", required=True, type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Write index.html here.")  # fmt: skip
@click.option("--title", default="Memory traffic over time", show_default=True, help="The page's title.")
def history(files: tuple[Path, ...], folder: Path, title: str) -> int:
    """Draw the bytes of every kernel over stored runs as one static page.

    The worst kernels come first. A FILE is what pytest --traffic-results wrote, a store of sweep, or JSONL of export; each is
    one run. Runs are in the order of their time where each has one, else in the order given.
    Example: ioaware history results/*.json -o site
    """
    from ioaware._atomic_file import make_directory
    from ioaware.gate.ci.run_history import history_lines, read_runs
    from ioaware.report.pages.document import write_page
    from ioaware.report.pages.history_page import history_page

    runs = read_runs(files)
    page = history_page(title, [run.label for run in runs], history_lines(runs))
    make_directory(folder)
    write_page(page, folder / PAGE)
    click.echo(folder / PAGE)
    return OK


command = history
