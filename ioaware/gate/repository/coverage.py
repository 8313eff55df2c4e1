"""Compute the share of a repository's kernels that are gated.

It comes from the ledger and the source.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ioaware.gate.repository.kernel_finder import find_kernels
from ioaware.gate.repository.ledger import LEDGER, Entry, Ledger, State, missing_tests


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
    known = ledger.kernels if ledger else {}
    gone = set(missing_tests(root, ledger)) if ledger else set[str]()
    rows = tuple(_row(kernel, known.get(kernel, Entry()), gone) for kernel in sorted(found))
    stale = [
        f"{kernel} is in the ledger, and no kernel of the repository: ioaware coverage --write removes it"
        for kernel in sorted(known.keys() - found)
    ]
    stale += [
        f"{test} does not exist, or does not use traffic: restore it, or take it out of {LEDGER}" for test in sorted(gone)
    ]
    return Coverage(rows, tuple(stale))


def _row(kernel: str, entry: Entry, gone: set[str]) -> tuple[str, State, str]:
    if entry.exempt:
        return kernel, "exempt", entry.exempt
    tests = [test for test in entry.tests if test not in gone]
    return kernel, "gated" if tests else "pending", ", ".join(tests)


def completed(ledger: Ledger | None, kernels: Iterable[str]) -> Ledger:
    """Return a ledger with these kernels.

    New ones are pending, and those that are gone are left out.
    """
    known = ledger.kernels if ledger else {}
    return Ledger({kernel: known.get(kernel, Entry()) for kernel in kernels})
