"""Show progress on stderr.

It is a bar on a terminal, some lines in a log, and nothing under `-q`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from ioaware.cli.options import settings
from ioaware.cli.output import progress
from ioaware.cli.terminal_text import printable

Step = Callable[[int, int, str], None]
"""Arguments: done, total, label of the last item."""

LOG_LINES = 20
"""Approximate number of lines that a long run writes to a log."""


@contextmanager
def progress_bar() -> Generator[Step]:
    """Yield a `Step` to call after each item."""
    import sys

    if settings().quiet:
        yield lambda done, total, what: None  # noqa: ARG005
    elif sys.stderr.isatty():
        with _bar() as step:
            yield step
    else:
        yield _log


def _log(done: int, total: int, what: str) -> None:
    """Print the first, the last and every twentieth part of the items."""
    if done in (1, total) or done % max(1, total // LOG_LINES) == 0:
        progress(f"{done}/{total} {what}")


@contextmanager
def _bar() -> Generator[Step]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True, markup=False, highlight=False), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=printable(what))
