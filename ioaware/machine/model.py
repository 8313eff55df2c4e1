"""`Machine`: the levels of a GPU's memory, its SMs and its peak FLOP/s, every number beside where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ioaware.errors import UsageError
from ioaware.params import DTYPE_ALIASES, ELEMENT_BYTES

LevelName = Literal["registers", "shared", "l1", "l2", "hbm"]


@dataclass(frozen=True, slots=True)
class Level:
    """One memory level, per SM or for the whole GPU as `scope` says. Bandwidth None: no number to be trusted exists.

    `shared` is the most shared memory that one SM can give to programs; it is carved out of the same array as `l1`.
    `hbm` is the device memory, also where that is GDDR.
    """

    name: LevelName
    scope: Literal["sm", "gpu"]
    capacity_bytes: int
    capacity_source: str
    bandwidth_bytes_per_s: float | None
    bandwidth_source: str


@dataclass(frozen=True, slots=True)
class Peak:
    """Dense peak rate for one dtype, accumulating in fp32, in FLOP/s (a fused multiply-add is two)."""

    flops_per_s: float
    source: str


@dataclass(frozen=True, slots=True)
class Machine:
    """A GPU. `name` is what `find_machine` takes; `device` what the driver calls it; `notes` what could not be detected."""

    name: str
    device: str
    sms: int
    sms_source: str
    levels: tuple[Level, ...]
    peaks: Mapping[str, Peak]
    notes: tuple[str, ...] = ()

    def level(self, name: LevelName) -> Level:
        """The level of that name. Raises `UsageError` where this machine's is not known."""
        for level in self.levels:
            if level.name == name:
                return level
        raise UsageError(
            f"{self.name} has no known level {name!r}", f"Known: {', '.join(level.name for level in self.levels)}."
        )

    def peak(self, dtype: str) -> Peak:
        """The peak for a dtype, under torch's name or a short one (`fp16`). Raises `UsageError` naming the known ones."""
        known = self.peaks.get(DTYPE_ALIASES.get(dtype, dtype))
        if known is None:
            raise UsageError(f"{self.name}: no peak FLOP/s known for {dtype!r}", f"Known: {', '.join(self.peaks)}.")
        return known

    def sram_elements(self, dtype: str) -> int:
        """M of the papers: the elements of one SM's shared memory. Registers are not counted: kernels cannot address them."""
        return self.level("shared").capacity_bytes // ELEMENT_BYTES[DTYPE_ALIASES.get(dtype, dtype)]

    def attainable_flops_per_s(self, intensity: float, dtype: str, level: LevelName = "hbm") -> float:
        """The roofline at `intensity` FLOPs per byte moved at `level`: min(peak, intensity x bandwidth), in FLOP/s.

        Williams, Waterman, Patterson 2009. The bandwidth of a level per SM counts for all SMs together. Raises
        `UsageError` where the bandwidth or the peak is not known.
        """
        return min(self.peak(dtype).flops_per_s, intensity * self.bandwidth_bytes_per_s(level))

    def bandwidth_bytes_per_s(self, level: LevelName) -> float:
        """The bandwidth of a level, of all SMs together. Raises `UsageError` where it is not known."""
        found = self.level(level)
        if found.bandwidth_bytes_per_s is None:
            raise UsageError(f"{self.name}: the bandwidth of {level} is not known ({found.bandwidth_source})")
        return found.bandwidth_bytes_per_s * (self.sms if found.scope == "sm" else 1)

    def ridge_flops_per_byte(self, dtype: str, level: LevelName = "hbm") -> float:
        """The intensity where the roofline bends: below it `level` bounds the time, above it the arithmetic."""
        return self.peak(dtype).flops_per_s / self.bandwidth_bytes_per_s(level)
