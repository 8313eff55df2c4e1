"""The parameters that are still symbolic while a capture settles, and what became of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ioaware.symints.symbols import Decision


@dataclass
class Free:
    """The parameters that are symbolic still, what became of the others, and why."""

    values: dict[str, int]
    same: dict[str, str] = field(default_factory=dict[str, str])
    """Parameters that are the symbol of another one."""
    equalities: list[str] = field(default_factory=list[str])
    pinned: dict[str, str] = field(default_factory=dict[str, str])

    def copy(self) -> Free:
        """Another, that may go on without this one."""
        return Free(dict(self.values), dict(self.same), list(self.equalities), dict(self.pinned))

    def without(self, name: str) -> Free:
        """All but one of them."""
        values = {other: value for other, value in self.values.items() if other != name}
        return Free(values, {one: other for one, other in self.same.items() if other != name})

    def merge(self, decision: Decision) -> None:
        """Two parameters become one symbol."""
        kept, name = decision.equals or ("", "")
        del self.values[name]
        self.same = {one: kept if other == name else other for one, other in self.same.items()} | {name: kept}
        self.equalities.append(decision.note)

    def pin(self, reasons: Mapping[str, str]) -> None:
        """Parameters, and those that are their symbol, become their given values."""
        reasons = {**reasons, **{one: reasons[other] for one, other in self.same.items() if other in reasons}}
        self.pinned |= reasons
        self.values = {name: value for name, value in self.values.items() if name not in reasons}
        self.same = {one: other for one, other in self.same.items() if one not in reasons}

    @property
    def suspects(self) -> list[str]:
        """Parameters that were run as 2 because they are 1, else all of them."""
        return [name for name, value in self.values.items() if value == 1] or list(self.values)
