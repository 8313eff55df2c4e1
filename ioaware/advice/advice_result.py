"""Hold what `advise` found.

Choices are ranked by predicted bytes and time; those that do not fit are listed with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ioaware.machine.time_bound import TimeBound
from ioaware.result import Params, ParamValue, Traffic

Change = Mapping[str, ParamValue]


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to launch the target, and its predicted bytes.

    A way is parameters, or values of a kernel's configuration.

    `current` is what the target does now. Registers are per thread, shared memory per program; both are the most of any launch.
    """

    target: str
    change: Change
    requested: Traffic
    hbm: Traffic
    flops: int
    bound: TimeBound
    registers: int | None
    shared_bytes: int
    programs_per_sm: int
    current: bool = False

    @property
    def hbm_bytes(self) -> int:
        """Reads and writes at HBM."""
        return self.hbm.total_bytes or 0

    @property
    def requested_bytes(self) -> int:
        """Requested reads, writes and atomics.

        Sectors where they are known, as the L2 sees them.
        """
        return self.requested.moved_bytes or 0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "target": self.target,
            "change": dict(self.change),
            "current": self.current,
            "requested_bytes": self.requested_bytes,
            "hbm": {"read_bytes": self.hbm.read_bytes, "write_bytes": self.hbm.write_bytes},
            "flops": self.flops,
            "bound": self.bound.to_dict(),
            "registers": self.registers,
            "shared_bytes": self.shared_bytes,
            "programs_per_sm": self.programs_per_sm,
        }


@dataclass(frozen=True, slots=True)
class Rejected:
    """A choice that cannot run or is not the same work, with the reason."""

    target: str
    change: Change
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"target": self.target, "change": dict(self.change), "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Advice:
    """Choices, the best first, for one target at one set of parameters on one machine."""

    target: str
    params: Params
    machine: str
    ranked: tuple[Choice, ...]
    rejected: tuple[Rejected, ...]
    notes: tuple[str, ...]
    untried: int = 0
    """Choices that were not tried, as the time was over."""

    @property
    def best(self) -> Choice:
        """The first choice."""
        return self.ranked[0]

    @property
    def current(self) -> Choice | None:
        """What the target does now; None where it does not fit."""
        return next((one for one in self.ranked if one.current), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            "schema": 1,
            "target": self.target,
            "params": dict(self.params),
            "machine": self.machine,
            "ranked": [one.to_dict() for one in self.ranked],
            "rejected": [one.to_dict() for one in self.rejected],
            "untried": self.untried,
            "notes": list(self.notes),
        }


NEARLY = 1.01
"""Factor within which bytes or times count as equal.

It is less than the median error of predicted HBM reads.
"""


def rank(choices: list[Choice]) -> list[Choice]:
    """Sort by time bound, then HBM bytes, then requested bytes.

    Nearly equal values count as equal.
    """
    times = _steps([one.bound.time_ns or 0.0 for one in choices])
    bytes_ = _steps([float(one.hbm_bytes) for one in choices])
    order = sorted(
        range(len(choices)), key=lambda at: (times[at], bytes_[at], choices[at].requested_bytes, not choices[at].current)
    )
    return [choices[at] for at in order]


def _steps(values: list[float]) -> list[float]:
    """Replace each value by the least from which values rise by less than `NEARLY`."""
    least: dict[float, float] = {}
    start = -1.0
    for value in sorted(set(values)):
        if start < 0 or value > start * NEARLY:
            start = value
        least[value] = start
    return [least[value] for value in values]
