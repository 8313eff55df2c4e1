"""Compute the share of a repository's kernels that are gated.

It comes from the ledger and the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ioaware.gate.repository.kernel_finder import find_kernels
from ioaware.gate.repository.ledger import LEDGER, Entry, Ledger, State, missing_tests

UNLISTED = "not in the ledger: ioaware coverage --write adds it"
UNEXPLAINED = "without a date or a reason: ioaware coverage --write dates it"
UNDATED = (UNLISTED, UNEXPLAINED)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Each kernel with its state and the reason.

    `stale` are ledger entries that the repository lacks.
    """

    kernels: tuple[tuple[str, State, str], ...]
    stale: tuple[str, ...]

    def count(self, state: State) -> int:
        """Return the number of kernels in a state."""
        return sum(one == state for _, one, _ in self.kernels)

    @property
    def share(self) -> float | None:
        """Return gated over gated and pending kernels, in percent.

        None where there are none.
        """
        wanted = self.count("gated") + self.count("pending")
        return 100 * self.count("gated") / wanted if wanted else None

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            "schema": 1,
            "share_percent": self.share,
            **{state: self.count(state) for state in ("gated", "exempt", "pending")},
            "kernels": [{"kernel": kernel, "state": state, "why": why} for kernel, state, why in self.kernels],
            "stale": list(self.stale),
        }


def coverage(root: Path, ledger: Ledger | None) -> Coverage:
    """Return the coverage of the kernels below a directory.

    A gate whose test is gone is no gate.
    """
    found = find_kernels(root)
    known = ledger.kernels if ledger else dict[str, Entry]()
    gone = set(missing_tests(root, ledger)) if ledger else set[str]()
    rows = tuple(_row(kernel, known.get(kernel), gone) for kernel in sorted(found))
    stale = [
        f"{kernel} is in the ledger, and no kernel of the repository: ioaware coverage --write removes it"
        for kernel in sorted(known.keys() - found)
    ]
    stale += [
        f"{test} does not exist, or does not use traffic: restore it, or take it out of {LEDGER}" for test in sorted(gone)
    ]
    stale += [f"{kernel} is pending, {why}" for kernel, state, why in rows if ledger and state == "pending" and why in UNDATED]
    return Coverage(rows, tuple(stale))


def _row(kernel: str, entry: Entry | None, gone: set[str]) -> tuple[str, State, str]:
    if entry is None:
        return kernel, "pending", UNLISTED
    if entry.exempt:
        return kernel, "exempt", entry.exempt
    if tests := [test for test in entry.tests if test not in gone]:
        return kernel, "gated", ", ".join(tests)
    return kernel, "pending", entry.pending or ("its test is gone" if entry.tests else UNEXPLAINED)


def completed(ledger: Ledger | None, kernels: Mapping[str, str]) -> Ledger:
    """Return a ledger with these kernels, each with why it is pending.

    That is the reason of a new one, and of one without any. Those that are gone are left out.
    """
    known = ledger.kernels if ledger else dict[str, Entry]()
    found = {kernel: known.get(kernel, Entry()) for kernel in kernels}
    return Ledger(
        {
            kernel: replace(entry, pending=kernels[kernel]) if entry.state == "pending" and not entry.pending else entry
            for kernel, entry in found.items()
        }
    )
