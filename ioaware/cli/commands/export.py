"""`ioaware export --store FILE -o FILE`: a store's records for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from ioaware.cli.options import output_option, verb
from ioaware.cli.output import progress
from ioaware.errors import UsageError
from ioaware.strict_json import is_there


@verb
@click.option(
    "--store", "path", required=True, type=click.Path(path_type=Path), metavar="FILE", help="A store of `ioaware sweep`."
)
@click.option("--format", "format_", metavar="FORMAT", help="csv, jsonl or parquet.  [default: the ending of -o]")
@output_option("The file to write.", required=True)
def export(path: Path, format_: str | None, output: Path) -> None:
    """Export a store as CSV, Parquet or JSONL.

    CSV and Parquet have one flat row a record, without launches, and JSONL has everything.

    Example: ioaware export --store forward.db -o forward.csv
    """
    from ioaware.sweep.export import export as write
    from ioaware.sweep.store import Store

    if is_there(output) and is_there(path) and output.samefile(path):
        raise UsageError(f"-o {output} is the store itself", "Name another file: the records would replace the store.")
    with Store(path, readonly=True) as store:
        results = store.results()
    write(results, output, format_)
    progress(f"{len(results)} records in {output}")


command = export
