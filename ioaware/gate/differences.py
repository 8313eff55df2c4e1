"""Compare two collections of rows, such as two stores.

Rows of the same target and parameters become one difference each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ioaware.gate.difference import SCHEMA, Difference, difference
from ioaware.gate.row import Row
from ioaware.gate.verdict import BaselineError, Verdict, worst


@dataclass(frozen=True, slots=True)
class Differences:
    """One difference for each pair of rows, the worst first."""

    parts: tuple[Difference, ...]

    @property
    def verdict(self) -> Verdict:
        """Return the worst verdict."""
        return worst(part.verdict for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form; several pairs are under `parts`."""
        if len(self.parts) == 1:
            return self.parts[0].to_dict()
        reason = next(part.reason for part in self.parts if part.verdict is self.verdict)
        parts = [part.to_dict() for part in self.parts]
        return {"schema": SCHEMA, "verdict": str(self.verdict), "reason": reason, "rows": [], "parts": parts}


def differences(olds: Sequence[Row], news: Sequence[Row], *, cross_toolchain: bool = False) -> Differences:
    """Pair the rows and compare each pair.

    Raises `BaselineError` for a row without a partner: it is not gated.
    """
    if len(olds) == len(news) == 1:
        return Differences((difference(olds[0], news[0], cross_toolchain=cross_toolchain),))
    before, after = ({_key(row): row for row in rows} for rows in (olds, news))
    if len(before) < len(olds) or len(after) < len(news):
        raise BaselineError("a side has two rows of one target and parameters", "Keep one of each.")
    if alone := sorted(before.keys() ^ after.keys()):
        side = "old" if alone[0] in before else "new"
        raise BaselineError(
            f"{len(alone)} rows are on one side only, the first is {alone[0][0]} {alone[0][1]} ({side})",
            "Sweep the same study into both stores.",
        )
    parts = [difference(before[key], after[key], cross_toolchain=cross_toolchain) for key in before]
    order = list(Verdict)
    return Differences(tuple(sorted(parts, key=lambda part: (part.verdict.passes, -order.index(part.verdict)))))


def _key(row: Row) -> tuple[str, str]:
    return row.target, ", ".join(f"{name}={value}" for name, value in sorted(row.params.items()))
