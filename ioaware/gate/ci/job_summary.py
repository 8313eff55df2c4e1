"""Write the job summary of a CI run as Markdown of at most 900 KiB.

The worst rows come first. Every character that Markdown or HTML could read as markup becomes a numeric character reference,
which neither of them parses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ioaware._atomic_file import cannot_write
from ioaware.display.text import clean

MOST_BYTES = 900 * 1024
"""Most bytes of a summary: GitHub refuses one of more than 1 MiB.

GitHub's limit includes everything that other steps of the job wrote.
"""
LAST_LINE = 200
CELL = 400
VARIABLE = "GITHUB_STEP_SUMMARY"
MARKUP = re.compile(r"[\x00-\x1f!-$&'*/:<>-@\[-`{-\x7f]|(?<![0-9])\.|\.(?![0-9])")
"""What is no letter, digit or harmless sign, of ASCII.

Why: a set of what it leaves out compiles slowly. A full stop beside a digit on both sides is part of a number.
"""
NUMBERS = ("bytes", "vs compulsory")
"""Columns aligned to the right."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a summary: columns, and rows of texts with the worst first.

    `blocking` is the number of rows that fail the build.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    blocking: int


def summary(title: str, lines: Sequence[str], table: Table, most_bytes: int = MOST_BYTES) -> str:
    """Return the Markdown of a title, lines and a table, of at most so many bytes.

    Rows that do not fit are counted. Empty where not even the title fits.
    """
    head = [f"## {escaped(title)}", "", *(f"- {escaped(line)}" for line in lines), *([""] if lines else [])]
    top = [_row(map(escaped, table.columns)), _row("---:" if name in NUMBERS else "---" for name in table.columns)]
    kept = list(_fitting(head + (top if table.rows else []), most_bytes - LAST_LINE))
    if not kept:
        return ""
    room = most_bytes - LAST_LINE - sum(len(line.encode()) + 1 for line in kept)
    shown = list(_fitting((_row(map(escaped, row)) for row in table.rows), room))
    if left := len(table.rows) - len(shown):
        failing = max(0, table.blocking - len(shown))
        shown += ["", f"{left:,} more rows are left out, {failing:,} of them failing."]
    return "\n".join([*kept, *shown, "", ""])


def _fitting(lines: Iterable[str], room: int) -> Iterator[str]:
    """Yield lines as long as they fit into a number of bytes."""
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            return
        yield line


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """Return text of bounded length with every character of markup as a reference."""
    return MARKUP.sub(lambda found: f"&#{ord(found[0])};", clean(text, CELL))


def write_summary(path: Path, title: str, lines: Sequence[str], table: Table) -> None:
    """Append a summary to the file of a job, within the size that is left there.

    Raises `WriteError`.
    """
    try:
        present = path.stat().st_size if path.exists() else 0
        with path.open("a", encoding="utf-8") as file:
            file.write(summary(title, lines, table, max(0, MOST_BYTES - present)))
    except OSError as error:
        raise cannot_write(path, error) from error


def job_summary_file(given: Path | None) -> Path | None:
    """Return the file that was named, else the one of the job that runs, else None."""
    return given or (Path(named) if (named := os.environ.get(VARIABLE)) else None)
