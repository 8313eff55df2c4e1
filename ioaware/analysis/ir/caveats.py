"""State why a count is not exact or sectors are unknown.

One sentence stands for many lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caveat:
    """Reason as a sentence: `{of}{operation} at {line} {one} {rest}`.

    `many` replaces `one` for several instructions.
    """

    operation: str
    line: str
    one: str
    many: str
    rest: str
    of: str = ""

    def __str__(self) -> str:
        return sentences([self])[0]


def sentences(caveats: Iterable[Caveat]) -> list[str]:
    """Return the caveats as sentences, equal ones merged.

    Example: `tt.load at a.py:7, 9 and tt.store at a.py:12 count in terms of n`.
    """
    alike: dict[tuple[str, str, str, str], dict[str, dict[str, None]]] = {}
    for caveat in caveats:
        lines = alike.setdefault((caveat.of, caveat.one, caveat.many, caveat.rest), {}).setdefault(caveat.operation, {})
        lines[caveat.line] = None
    sentences: list[str] = []
    for (of, one, many, rest), operations in alike.items():
        several = sum(map(len, operations.values())) > 1
        sentences.append(f"{of}{_listed(operations)} {many if several else one} {rest}")
    return sentences


def _listed(operations: dict[str, dict[str, None]]) -> str:
    """List every operation with its lines.

    A file is named once while it stays the same.
    """
    parts: list[str] = []
    for operation, lines in operations.items():
        places: list[str] = []
        before = ""
        for line in lines:
            path, _, number = line.rpartition(":")
            places.append(number if path and path == before else line)
            before = path
        parts.append(f"{operation} at {', '.join(places)}")
    return " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} and {parts[-1]}"
