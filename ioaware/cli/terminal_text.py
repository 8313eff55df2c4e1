"""Text on its way to a terminal: foreign characters made harmless, line by line."""

from __future__ import annotations

import sys

from ioaware.display.text import clean


def printable(text: str) -> str:
    r"""The text with its lines kept and every control or direction character visible (`\x1b`).

    Kernel names, parameters, paths, notes and messages come from users and files; none may steer the terminal.
    """
    return "\n".join(clean(line, limit=sys.maxsize) for line in text.split("\n"))


def exact(value: int, unit: str = "B") -> str:
    """Every digit, grouped: 67,633,152 B."""
    return f"{value:,} {unit}".rstrip()
