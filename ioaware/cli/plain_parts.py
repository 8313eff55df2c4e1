"""Print aligned rows and lines to a pipe without rich.

Why: rich takes longer to import than a verb such as `compare` takes to judge a hundred points. On a terminal rich prints them,
and it prints whatever could be shown in another way: wide characters, several lines in a cell, more columns than a pipe has.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import IO, TYPE_CHECKING

from ioaware.cli.terminal_text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDE = 1000
"""Columns of a pipe or a file.

Each table has its natural width and is never wrapped.
"""
GAP = 2
"""Blanks after each column."""
OF_TERMINALS = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Environment variables by which rich takes a pipe for a terminal."""


def is_pipe(file: IO[str] | None) -> bool:
    """Return whether rich would take the file for no terminal; None is stdout."""
    return not any(map(os.environ.get, OF_TERMINALS)) and not (file or sys.stdout).isatty()


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text."""

    text: str

    def __rich__(self) -> RenderableType:
        """Return what rich prints."""
        from rich.text import Text

        return Text(printable(self.text))

    def plain(self) -> list[str] | None:
        """Return the lines of a pipe, or None where rich decides."""
        return [self.text] if _is_plain(self.text) and len(self.text) <= WIDE else None


@dataclass(frozen=True, slots=True)
class Facts:
    """Rows of names, values and remarks, as `render.facts` aligns them."""

    rows: Sequence[Sequence[str]]

    def __rich__(self) -> RenderableType:
        """Return what rich prints."""
        from ioaware.cli.render import facts

        return facts(self.rows)

    def plain(self) -> list[str] | None:
        """Return the lines of a pipe, or None where rich decides."""
        if not all(_is_plain(cell) for row in self.rows for cell in row):
            return None
        widths = [max(map(len, column)) for column in zip_longest(*self.rows, fillvalue="")]
        if sum(widths) + GAP * len(widths) > WIDE:
            return None
        return [""] if not self.rows else [(" " * GAP).join(map(_aligned, range(len(row)), row, widths)) for row in self.rows]


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and text == text.strip()


def _aligned(at: int, cell: str, width: int) -> str:
    return cell.rjust(width) if at == 1 else cell.ljust(width)
