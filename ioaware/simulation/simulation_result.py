"""Hold a simulation's HBM bytes by launch and tensor.

Repeated reads come with their reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ioaware.result import Result
from ioaware.simulation.l1.l1_replay import L1Reads
from ioaware.simulation.l2.cache import Reason
from ioaware.simulation.regimes import Regime

Range = tuple[int, int | None]
"""Least and most bytes; None means unbounded."""
WHY: Mapping[Reason, str] = {
    "wave": "a later wave of programs, after eviction",
    "capacity": "the same program, after eviction",
    "skew": "another program of the same wave, too far behind",
}


@dataclass(frozen=True, slots=True)
class TensorTraffic:
    """HBM traffic of one tensor in one launch.

    `distinct_bytes` are first reads, `excess_bytes` repeated reads by reason.

    `by_wave_bytes` is the distinct bytes of each wave, summed over waves: the reads if no wave hits lines of the wave before.
    """

    tensor: str
    read_bytes: int
    write_bytes: int
    distinct_bytes: int
    by_wave_bytes: int
    excess_bytes: Mapping[Reason, int]
    rewritten_bytes: int
    left_dirty_bytes: int
    regime: Regime | None

    @property
    def times_read(self) -> float | None:
        """HBM reads over distinct bytes; None where nothing is read."""
        return self.read_bytes / self.distinct_bytes if self.distinct_bytes else None

    @property
    def reason(self) -> str:
        """Reason for repeated reads; empty where there are none."""
        worst = max(self.excess_bytes, key=lambda name: self.excess_bytes[name])
        if not self.times_read or self.excess_bytes[worst] < 0.005 * self.distinct_bytes:
            return ""
        return f"read {self.times_read:.2f} times: again by {WHY[worst]}"


@dataclass(frozen=True, slots=True)
class SpilledBytes:
    """Bytes of spilled registers of a launch.

    They are those stored, all of which go to the L2, those loaded past the L1, and those loaded in all.
    """

    stored_bytes: int
    refilled_bytes: int
    loaded_bytes: int
    most_stored_bytes: int
    """With skipped code of which nothing says how often it runs.

    The other numbers leave it out.
    """

    @property
    def unknown_bytes(self) -> int:
        """Most bytes stored beyond those that are predicted."""
        return max(0, self.most_stored_bytes - self.stored_bytes)


@dataclass(frozen=True, slots=True)
class LaunchSimulation:
    """Occupancy of one launch, HBM traffic by tensor, and the ranges of the sums."""

    programs_at_once: int
    programs_per_sm: int
    limited_by: str
    waves: int
    tensors: tuple[TensorTraffic, ...]
    read_range: Range
    write_range: Range
    left_dirty_bytes: int
    warps: int = 0
    """Warps of a program."""
    l1: L1Reads | None = None
    """What the L1s serve; None where it is not known."""
    usable_l2_bytes: int = 0
    """Bytes that the L2 can hold of what all SMs read; 0 where it is not known."""
    data_dependent: tuple[str, ...] = ()
    """Tensors accessed where data decide: each byte is taken as moved once."""
    executed: bool = False
    """Whether data that the target built decide addresses, and these are used."""
    spills: SpilledBytes | None = None
    """None where no registers are spilled, or the machine code cannot be read."""
    shared_sector_bytes: int = 0
    """Most requested bytes of stores beyond each sector once.

    Instructions that share sectors request each of them. How many of these requests the L1 merges depends on time. Those of TMA
    are never merged.
    """
    unmerged_bytes: int = 0
    """Those of them that are expected: the L1 merges the others."""
    requested_read_bytes: int | None = None
    """Sectors of loads behind the L1, and whole boxes of TMA.

    Those fetched again are left out. None where they are unknown.
    """
    refetched_bytes: int = 0
    """Bytes of sectors that copies past the L1 fetch again: instructions share them."""

    @property
    def unknown_write_bytes(self) -> int:
        """Most requested writes beyond those that are predicted."""
        return self.shared_sector_bytes - self.unmerged_bytes + (self.spills.unknown_bytes if self.spills else 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        from ioaware.simulation.waves.closed_form import closed_forms

        forms = {form.tensor: form.to_dict() for form in closed_forms(self)}
        tensors = [
            {
                "tensor": one.tensor,
                "read_bytes": one.read_bytes,
                "write_bytes": one.write_bytes,
                "distinct_bytes": one.distinct_bytes,
                "by_wave_bytes": one.by_wave_bytes,
                "excess_bytes": {name: value for name, value in one.excess_bytes.items() if value},
                "rewritten_bytes": one.rewritten_bytes,
                "left_dirty_bytes": one.left_dirty_bytes,
                **({"regime": one.regime} if one.regime else {}),
                **({"reason": one.reason} if one.reason else {}),
                **({"closed_form": forms[one.tensor]} if one.tensor in forms else {}),
            }
            for one in self.tensors
        ]
        return {
            "programs_at_once": self.programs_at_once,
            "programs_per_sm": self.programs_per_sm,
            "limited_by": self.limited_by,
            "waves": self.waves,
            "warps": self.warps,
            "hbm_read_range_bytes": list(self.read_range),
            "hbm_write_range_bytes": list(self.write_range),
            "left_dirty_bytes": self.left_dirty_bytes,
            **({"l1": asdict(self.l1)} if self.l1 else {}),
            **({"data_dependent": list(self.data_dependent)} if self.data_dependent else {}),
            **({"executed_on_data": True} if self.executed else {}),
            **({"spilled_registers": asdict(self.spills)} if self.spills else {}),
            **({"shared_sector_bytes": self.shared_sector_bytes} if self.shared_sector_bytes else {}),
            **({"unmerged_bytes": self.unmerged_bytes} if self.unmerged_bytes else {}),
            **({"refetched_bytes": self.refetched_bytes} if self.refetched_bytes else {}),
            "tensors": tensors,
        }


@dataclass(frozen=True, slots=True)
class Simulated(Result):
    """`Result` with its simulation.

    `simulations` has one entry per launch, None for an ATen operator.
    """

    machine: str = ""
    cold: bool = False
    simulations: tuple[LaunchSimulation | None, ...] = ()
    read_range: Range = (0, None)
    write_range: Range = (0, None)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form of a result.

        Each simulated launch has `simulation` beside `requested` and `hbm`.
        """
        data = Result.to_dict(self)
        for name in ("simulations", "read_range", "write_range"):
            data.pop(name, None)
        data["hbm_read_range_bytes"], data["hbm_write_range_bytes"] = list(self.read_range), list(self.write_range)
        for launch, simulation in zip(data.get("launches", []), self.simulations, strict=True):
            if simulation is not None:
                launch["simulation"] = simulation.to_dict()
        return data
