"""Where output goes: data to stdout or the file of `-o`, as text or JSON; progress and remarks to stderr."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ioaware._atomic_file import atomic_write
from ioaware.cli.options import settings
from ioaware.cli.terminal_text import printable
from ioaware.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

WIDE = 1000
"""Columns when nobody looks: a pipe or a file gets each table at its natural width, never wrapped or cut."""


Text = Callable[[], "Iterable[RenderableType]"]


def emit(data: Callable[[], Any], text: Text, *, as_json: bool, output: Path | None = None) -> None:
    """Writes one of the two forms. JSON is strict (no NaN) and ASCII, so that no terminal interprets it."""
    if as_json:
        document = json.dumps(data(), allow_nan=False, indent=2) + "\n"
        _write(output, document) if output else click.echo(document, nl=False)
    elif output:
        buffer = io.StringIO()
        _print(_console(buffer), text())
        _write(output, buffer.getvalue())
    else:
        _print(_console(None), text())


def progress(line: str) -> None:
    """A line on stderr for the person who waits; silent under `-q`."""
    if not settings().quiet:
        click.echo(printable(line), err=True)


def _console(file: io.StringIO | None) -> Console:
    """Plain: foreign text is neither markup nor highlighted; colours only on a terminal."""
    from rich.console import Console

    class Quiet(Console):
        """Leaves a closed pipe to the command line, where rich would exit with 1."""

        def on_broken_pipe(self) -> None:
            raise  # what rich has just caught

    console = Quiet(file=file, markup=False, highlight=False, emoji=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = WIDE
    return console


def _print(console: Console, parts: Iterable[RenderableType]) -> None:
    """Each part without trailing blanks when it goes to a file or pipe, where they would only be noise."""
    for part in parts:
        if console.is_terminal:
            console.print(part)
            continue
        with console.capture() as capture:
            console.print(part)
        lines = (line.rstrip() for line in capture.get().removesuffix("\n").split("\n"))
        console.file.write("\n".join(lines) + "\n")


def _write(path: Path, document: str) -> None:
    try:
        with atomic_write(path) as place:
            place.write_text(document, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})", "Choose another path for -o.") from error
