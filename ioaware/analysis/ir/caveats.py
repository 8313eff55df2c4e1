"""What keeps a count from being exact, or sectors from being known: said of one instruction, and of many at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Doubt:
    """`{of}{operation} at {line} {one} {rest}`, with `many` for `one` where it is said of several instructions."""

    operation: str
    line: str
    one: str
    many: str
    rest: str
    of: str = ""

    def __str__(self) -> str:
        return said([self])[0]


def said(doubts: Iterable[Doubt]) -> list[str]:
    """The doubts as sentences, those alike as one: `tt.load at a.py:7, 9 and tt.store at a.py:12 count in terms of n`."""
    alike: dict[tuple[str, str, str, str], dict[str, dict[str, None]]] = {}
    for doubt in doubts:
        lines = alike.setdefault((doubt.of, doubt.one, doubt.many, doubt.rest), {}).setdefault(doubt.operation, {})
        lines[doubt.line] = None
    sentences: list[str] = []
    for (of, one, many, rest), operations in alike.items():
        several = sum(map(len, operations.values())) > 1
        sentences.append(f"{of}{_listed(operations)} {many if several else one} {rest}")
    return sentences


def _listed(operations: dict[str, dict[str, None]]) -> str:
    """Every operation with its lines, the file said once where it stays the same."""
    parts: list[str] = []
    for operation, lines in operations.items():
        told: list[str] = []
        before = ""
        for line in lines:
            path, _, number = line.rpartition(":")
            told.append(number if path and path == before else line)
            before = path
        parts.append(f"{operation} at {', '.join(told)}")
    return " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} and {parts[-1]}"
