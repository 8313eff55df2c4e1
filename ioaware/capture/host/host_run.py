"""Hold one run of the host function."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ioaware.compilation.execution.program_values import Moved
from ioaware.compilation.launches import (
    CapturedLaunch,
    Event,
    without_storage_numbers,
)
from ioaware.symints.decision import Decision
from ioaware.symints.symbols import Symbols


@dataclass
class HostRun:
    """One run of the host function."""

    symbols: Symbols
    events: list[Event] = field(default_factory=list[Event])
    notes: tuple[str, ...] = ()
    returned: frozenset[int] = frozenset()
    error: Exception | None = None
    moved: dict[int, Moved | str] = field(default_factory=dict[int, Moved | str])
    """Bytes of launches with index tensors of host code, by number of the launch.

    Host code built these tensors, and a plain run has the bytes.
    """
    chance: str = ""
    """What host code used that differs from run to run, as random numbers.

    Empty for neither.
    """
    may_differ: bool = False
    """Whether a GPU may run other kernels."""

    @property
    def pinned(self) -> dict[str, str]:
        """Parameters that this run needed as integers, with the reason."""
        reasons: dict[str, str] = {}
        for decision in self.symbols.decisions.values():
            if decision.pins:
                for name in sorted(decision.names):
                    reasons.setdefault(name, decision.reason)
        # A parameter that is 1 ran as 2 and may have taken another branch: pin those first and run again.
        substituted = {name: reason for name, reason in reasons.items() if self.symbols.runs_at_substitute(name)}
        return substituted or reasons

    @property
    def equality(self) -> Decision | None:
        """First decision that makes two parameters equal."""
        return next((decision for decision in self.symbols.decisions.values() if decision.equals), None)


def launches_of(events: Iterable[Event]) -> list[Event]:
    """Return the launches of a run, to be compared with those of another."""
    return [without_storage_numbers(event) for event in events if isinstance(event, CapturedLaunch)]
