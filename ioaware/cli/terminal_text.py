"""Make text safe for a terminal: control characters spelt out, lines kept."""

from __future__ import annotations

import sys

from ioaware.display.text import clean


def printable(text: str) -> str:
    r"""Return the text with its lines, and control characters spelt out.

    Every control or direction character is spelt out (`\x1b`).

    Why: kernel names, parameters, paths, notes and messages come from users and files.
    """
    return "\n".join(clean(line, limit=sys.maxsize) for line in text.split("\n"))


def exact(value: int, unit: str = "B") -> str:
    """Return every digit, grouped: 67,633,152 B."""
    return f"{value:,} {unit}".rstrip()
