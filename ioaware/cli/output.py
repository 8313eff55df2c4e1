"""Print data to stdout or the file of `-o`, as text or JSON.

Print progress and remarks to stderr.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ioaware._atomic_file import atomic_write
from ioaware.cli.options import settings
from ioaware.cli.plain_parts import WIDE, Facts, Line, is_pipe
from ioaware.cli.terminal_text import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Text = Callable[[], "Iterable[RenderableType]"]


def emit(data: Callable[[], Any], text: Text, *, as_json: bool, output: Path | None = None) -> None:
    """Print the data as text or as JSON. JSON is strict (no NaN) and ASCII."""
    if as_json:
        document = json.dumps(data(), allow_nan=False, indent=2) + "\n"
        _write(output, document) if output else click.echo(document, nl=False)
    elif output:
        buffer = io.StringIO()
        _print(buffer, text())
        _write(output, buffer.getvalue())
    else:
        _print(None, text())


def progress(line: str) -> None:
    """Print a line on stderr, unless `-q`."""
    if not settings().quiet:
        click.echo(printable(line), err=True)


def _console(file: io.StringIO | None) -> Console:
    """Return a console without markup or highlighting.

    Colours are used only on a terminal.
    """
    from rich.console import Console

    class Quiet(Console):
        """Raise on a closed pipe, where rich would exit with 1."""

        def on_broken_pipe(self) -> None:
            raise  # what rich has just caught

    console = Quiet(file=file, markup=False, highlight=False, emoji=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = WIDE
    return console


def _print(file: io.StringIO | None, parts: Iterable[RenderableType]) -> None:
    """Print each part, without trailing blanks where the output is a file or a pipe."""
    console, pipe = None, is_pipe(file)
    for part in parts:
        if pipe and isinstance(part, (Facts, Line)) and (plain := part.plain()) is not None:
            (file or sys.stdout).write("\n".join(line.rstrip() for line in plain) + "\n")
            continue
        console = console or _console(file)
        if console.is_terminal:
            console.print(part)
            continue
        with console.capture() as capture:
            console.print(part)
        lines = (line.rstrip() for line in capture.get().removesuffix("\n").split("\n"))
        console.file.write("\n".join(lines) + "\n")


def _write(path: Path, document: str) -> None:
    with atomic_write(path) as place:
        place.write_text(document, encoding="utf-8")
