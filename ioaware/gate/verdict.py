"""The verdicts of the gate, and the exit code of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from ioaware.errors import InconclusiveError, IoawareError


class Verdict(StrEnum):
    """How a new version compares with an old one.

    Only SAME and BETTER let a build pass.
    """

    SAME = "SAME"
    """Proven equal, at every size."""
    BETTER = "BETTER"
    """Proven to be no more anywhere, and less somewhere."""
    WORSE = "WORSE"
    """More at the sizes of the gate."""
    GROWTH = "GROWTH"
    """The same or fewer bytes at the gate's sizes, and more at others.

    The formula has another growth.
    """
    UNSURE = "UNSURE"
    """No more at any size tried, and not proven at the others."""
    INCOMPARABLE = "INCOMPARABLE"
    """Not the same thing on both sides.

    The reason is another toolchain, a number that data decide, or a formula that cannot be read.
    """

    @property
    def passes(self) -> bool:
        """Return whether a build with this verdict may pass."""
        return self in (Verdict.SAME, Verdict.BETTER)

    @property
    def exit_code(self) -> int:
        """Return the exit code of the command line.

        It is 1 for growth, 3 where the evidence does not decide.
        """
        return EXIT_CODES[self]


EXIT_CODES: Mapping[Verdict, int] = {
    Verdict.SAME: 0,
    Verdict.BETTER: 0,
    Verdict.WORSE: 1,
    Verdict.GROWTH: 1,
    Verdict.UNSURE: InconclusiveError.exit_code,
    Verdict.INCOMPARABLE: InconclusiveError.exit_code,
}
_SEVERITY = (Verdict.WORSE, Verdict.GROWTH, Verdict.INCOMPARABLE, Verdict.UNSURE, Verdict.BETTER, Verdict.SAME)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict of several together.

    INCOMPARABLE where there is none, so that nothing passes unseen.
    """
    found = frozenset(verdicts)
    return next((verdict for verdict in _SEVERITY if verdict in found), Verdict.INCOMPARABLE)


class BaselineError(IoawareError):
    """What a gate compares with is missing or stale.

    It may be a snapshot, a row of a ledger, or a side of a comparison.
    """

    exit_code = 4
