"""Hold the symbolic parameters of a capture.

The reasons why the others are specialised or merged are held too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ioaware.symints.decision import Decision


@dataclass
class SymbolicParams:
    """Symbolic parameters and their values, and the other parameters.

    The others are merged parameters, and specialised parameters with reasons.
    """

    values: dict[str, int]
    same: dict[str, str] = field(default_factory=dict[str, str])
    """Merged parameters: maps a name to the parameter whose symbol it shares."""
    equalities: list[str] = field(default_factory=list[str])
    pinned: dict[str, str] = field(default_factory=dict[str, str])

    def copy(self) -> SymbolicParams:
        """Return an independent copy."""
        return SymbolicParams(dict(self.values), dict(self.same), list(self.equalities), dict(self.pinned))

    def without(self, name: str) -> SymbolicParams:
        """Return a copy in which `name` is not symbolic."""
        values = {other: value for other, value in self.values.items() if other != name}
        return SymbolicParams(values, {one: other for one, other in self.same.items() if other != name})

    def merge(self, decision: Decision) -> None:
        """Merge two parameters that are equal into one symbol."""
        kept, name = decision.equals or ("", "")
        del self.values[name]
        self.same = {one: kept if other == name else other for one, other in self.same.items()} | {name: kept}
        self.equalities.append(decision.note)

    def pin(self, reasons: Mapping[str, str]) -> None:
        """Specialise parameters, and those merged with them, to their given values."""
        reasons = {**reasons, **{one: reasons[other] for one, other in self.same.items() if other in reasons}}
        self.pinned |= reasons
        self.values = {name: value for name, value in self.values.items() if name not in reasons}
        self.same = {one: other for one, other in self.same.items() if one not in reasons}

    @property
    def suspects(self) -> list[str]:
        """Return the parameters that are 1 and ran as 2.

        All of them are returned where there are none.
        """
        return [name for name, value in self.values.items() if value == 1] or list(self.values)
