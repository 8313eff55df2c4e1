"""Define the words of a verdict on an untrusted kernel, and a finding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ioaware.errors import InconclusiveError


class Outcome(StrEnum):
    """Outcome of a rule, and of all rules together.

    Only SOUND lets an evaluation pass.
    """

    SOUND = "SOUND"
    """Every rule was examined, and none is broken."""
    REFUSED = "REFUSED"
    """A run shows a wrong output or a measurement that is tampered with.

    A wrong output is not what the kernels compute from these inputs.
    """
    IMPOSSIBLE = "IMPOSSIBLE"
    """A measured number contradicts physics."""
    SUSPECT = "SUSPECT"
    """The evidence is against the kernel and is no proof: a person has to look."""
    INCOMPLETE = "INCOMPLETE"
    """A rule could not be examined, and none that was is broken."""

    @property
    def exit_code(self) -> int:
        """Return the exit code: 1 for REFUSED and SUSPECT, 3 where nothing is decided."""
        return EXIT_CODES[self]


EXIT_CODES: Mapping[Outcome, int] = {
    Outcome.SOUND: 0,
    Outcome.REFUSED: 1,
    Outcome.SUSPECT: 1,
    Outcome.IMPOSSIBLE: InconclusiveError.exit_code,
    Outcome.INCOMPLETE: InconclusiveError.exit_code,
}
_SEVERITY = (Outcome.REFUSED, Outcome.IMPOSSIBLE, Outcome.SUSPECT, Outcome.INCOMPLETE)


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that is broken, or could not be examined.

    `where` is a tensor, a line or a function.
    """

    rule: str
    outcome: Outcome
    what: str
    where: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "rule": self.rule,
            "outcome": str(self.outcome),
            "what": self.what,
            "where": self.where,
            "evidence": dict(self.evidence),
        }


def together(findings: Iterable[Finding]) -> Outcome:
    """Return the most severe outcome; SOUND where there is no finding."""
    found = frozenset(finding.outcome for finding in findings)
    return next((outcome for outcome in _SEVERITY if outcome in found), Outcome.SOUND)
