"""Define one call of the gate as CI shows it, and the order of such calls."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

from ioaware.gate.verdict import Verdict

MISSING, FAILED, OPEN, SKIPPED, WRITTEN = "MISSING", "FAILED", "OPEN", "SKIPPED", "WRITTEN"
"""States beside the verdicts: no snapshot yet.

Failed otherwise; compared with nothing; not run; snapshot just written.
"""
PASSING = (Verdict.SAME.value, WRITTEN)
SEVERITY = (
    Verdict.WORSE.value,
    Verdict.GROWTH.value,
    FAILED,
    OPEN,
    MISSING,
    Verdict.INCOMPARABLE.value,
    Verdict.UNSURE.value,
    Verdict.BETTER.value,
    SKIPPED,
    WRITTEN,
    Verdict.SAME.value,
)
MOST_TEXT = 20_000
"""Most characters of a text: a message may carry a formula of megabytes."""


@dataclass(slots=True)
class Outcome:
    """One `traffic(...)` of a test, at its first point.

    `bytes` are requested ones; `path` and `line` are those of the call.
    """

    test: str
    target: str = ""
    path: str = ""
    line: int = 0
    gpu: str = ""
    verdict: str = OPEN
    reason: str = ""
    reads: str = ""
    writes: str = ""
    point: str = ""
    bytes: int | None = None
    compulsory: int | None = None
    message: str = ""
    """The whole text of the failure."""

    @property
    def passes(self) -> bool:
        """Return whether the call lets a build pass; a verdict that is not known does not."""
        return self.verdict in PASSING

    @property
    def blocks(self) -> bool:
        """Return whether the call fails a build. A skipped one neither passes nor fails."""
        return not self.passes and self.verdict != SKIPPED

    @property
    def vs_compulsory(self) -> float | None:
        """Return requested over compulsory bytes."""
        return self.bytes / self.compulsory if self.bytes is not None and self.compulsory else None

    def judge(self, verdict: str, reason: str, message: str = "") -> None:
        """Take a verdict, unless the call already has a more severe one."""
        if self.verdict == OPEN or SEVERITY.index(verdict) < SEVERITY.index(self.verdict):
            self.verdict = str(verdict)  # of no enumeration: pytest-xdist passes on plain texts only
            self.reason, self.message = reason, message or self.message

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form, long texts cut."""
        return {name: _plain(value) if isinstance(value, str) else value for name, value in asdict(self).items()}


def _plain(text: str) -> str:
    """Return text of bounded length that UTF-8 can encode."""
    return text[:MOST_TEXT].encode("utf-8", "backslashreplace").decode("utf-8")


def outcome_of(value: object) -> Outcome:
    """Return the outcome of its JSON form.

    Raises `ValueError` for a field that is unknown, missing or of another type.
    """
    if not isinstance(value, dict):
        raise ValueError("an outcome is no object")
    table = cast("dict[str, Any]", value)
    known = {field.name: field for field in fields(Outcome)}
    if table.keys() != known.keys():
        raise ValueError(f"an outcome has the fields {', '.join(sorted(map(str, table)))[:200]}")
    for name, item in table.items():
        count = name in ("line", "bytes", "compulsory")
        valid = (type(item) is int and item >= 0) if count else isinstance(item, str)
        if not valid and not (item is None and name in ("bytes", "compulsory")):
            raise ValueError(f"{name} is {str(item)[:40]!r}")
    if table["verdict"] not in SEVERITY:
        raise ValueError(f"verdict is {table['verdict'][:40]!r}")
    return Outcome(**table)


def worst_first(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the outcomes by severity, distance from compulsory, and test.

    An unknown distance counts as the largest.
    """
    order: Mapping[str, int] = {verdict: place for place, verdict in enumerate(SEVERITY)}

    def key(one: Outcome) -> tuple[int, float, str, int]:
        ratio = one.vs_compulsory
        return order.get(one.verdict, -1), -math.inf if ratio is None else -ratio, one.test, one.line

    return sorted(outcomes, key=key)
