"""Define `Machine`: a GPU's memory levels, SMs and peak FLOP/s.

Each number has its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ioaware.errors import UsageError
from ioaware.params import DTYPE_ALIASES, ELEMENT_BYTES

SECTOR_BYTES = 32
"""Granularity of L1 and L2 requests on NVIDIA GPUs.

It is the unit of Nsight Compute's sector counters.
"""
Rate = Literal["read", "write", "copy", "triad"]
LevelName = Literal["registers", "shared", "l1", "l2", "hbm"]


@dataclass(frozen=True, slots=True)
class Level:
    """One memory level, per SM or for the whole GPU (`scope`).

    Bandwidth None: no reliable number exists.

    `shared` is the most shared memory that one SM can give to programs; it shares its array with `l1`. `hbm` is the device
    memory, GDDR included. `rates` are measured bytes per second of reading, writing, copying and triad, where a calibration
    has them: each is a separate ceiling.
    """

    name: LevelName
    scope: Literal["sm", "gpu"]
    capacity_bytes: int
    capacity_source: str
    bandwidth_bytes_per_s: float | None
    bandwidth_source: str
    rates: Mapping[Rate, float] = field(default_factory=dict["Rate", float])


@dataclass(frozen=True, slots=True)
class L2Model:
    """Parameters of the L2 for `simulate`, each value with its source.

    `partitions`: 2 where each half of the SMs reads through its half of the L2, which then also caches lines of the other half.
    `dirty_share`: share of the capacity that may be dirty. `capacity_spread` and `skew_spread` are uncertainties, for the range
    of a prediction: capacity times 1 - spread to 1 + spread, and programs that start apart by up to that share of their time.

    `ways`: lines of a set, where each replaces its own; 0 where that is not known, and the cache is one set.
    """

    partitions: Literal[1, 2]
    dirty_share: float
    capacity_spread: float
    skew_spread: float
    source: str
    ways: int = 0

    @property
    def reach(self) -> float:
        """Bytes of a sweep of which half misses, over the capacity."""
        return reach(self.ways)


def reach(ways: int) -> float:
    """Return the bytes of a sweep of which half misses, over the capacity.

    A set misses when one line more than its ways is in it: sets do one after the other while a sweep grows by a way.
    """
    return 1 + 1 / (2 * ways) if ways else 1.0


UNKNOWN_L2 = L2Model(1, 1.0, 0.25, 0.25, "only the size of this GPU's L2 is known: one partition is assumed")


@dataclass(frozen=True, slots=True)
class L1Model:
    """How the driver divides an SM's cache, for `simulate`.

    `shared_steps` are the bytes of shared memory that it configures; it leaves room for more programs up to
    `spare_shared_bytes`. A program with more than `prefers_shared_bytes` gets the most.
    """

    shared_steps: tuple[int, ...]
    spare_shared_bytes: int
    prefers_shared_bytes: int
    source: str


L1_OF_H200 = L1Model(
    tuple(kib << 10 for kib in (8, 16, 32, 64, 100, 132, 164, 196, 228)),
    132 << 10,
    48 << 10,
    "slices and rows that programs read again, on an H200: ioaware/recorded/l1",
)


@dataclass(frozen=True, slots=True)
class Peak:
    """Dense peak rate for one dtype, accumulating in fp32, in FLOP/s.

    A fused multiply-add is two.
    """

    flops_per_s: float
    source: str


@dataclass(frozen=True, slots=True)
class Link:
    """What connects GPUs of one host.

    Rates are bytes a second that a GPU receives while it sends as many.

    `bandwidth_bytes_per_s` is the vendor's; `reached_bytes_per_s` what copies reach, None where they were not measured. It
    joins the `host_gpus` of a host. What a GPU receives from other hosts is an assumption, with its source.
    """

    name: str
    bandwidth_bytes_per_s: float
    source: str
    reached_bytes_per_s: float | None = None
    reached_source: str = "not measured"
    host_gpus: int = 8
    network_bytes_per_s: float = 50e9
    network_source: str = "one adapter a GPU, 400 Gbit/s a direction: NVIDIA ConnectX-7, NDR"

    @property
    def ceiling_bytes_per_s(self) -> float:
        """Return what copies reach, or the vendor's bandwidth where that is unknown."""
        return self.bandwidth_bytes_per_s if self.reached_bytes_per_s is None else self.reached_bytes_per_s

    @property
    def ceiling_text(self) -> str:
        """Return the ceiling with its source."""
        vendor = f"{self.bandwidth_bytes_per_s / 1e9:g} GB/s a direction ({self.source})"
        if self.reached_bytes_per_s is None:
            return vendor
        return f"{self.reached_bytes_per_s / 1e9:g} GB/s a direction ({self.reached_source}); its vendor says {vendor}"


@dataclass(frozen=True, slots=True)
class Machine:
    """GPU model.

    `name` is the argument of `find_machine`, `device` the driver's name, `compute_capability` ten times CUDA's version of it,
    `notes` what was not detected.
    """

    name: str
    device: str
    compute_capability: int
    sms: int
    sms_source: str
    levels: tuple[Level, ...]
    peaks: Mapping[str, Peak]
    notes: tuple[str, ...] = ()
    l2_model: L2Model = UNKNOWN_L2
    l1_model: L1Model = L1_OF_H200
    link: Link | None = None
    """None: no number is known, or the GPU has no NVLink."""

    def level(self, name: LevelName) -> Level:
        """Return the level of that name. Raises `UsageError` where it is unknown."""
        for level in self.levels:
            if level.name == name:
                return level
        raise UsageError(
            f"{self.name} has no known level {name!r}", f"Known: {', '.join(level.name for level in self.levels)}."
        )

    def peak(self, dtype: str) -> Peak:
        """Return the peak for a dtype, by torch's name or a short one (`fp16`).

        Raises `UsageError`.
        """
        known = self.peaks.get(DTYPE_ALIASES.get(dtype, dtype))
        if known is None:
            raise UsageError(f"{self.name}: no peak FLOP/s known for {dtype!r}", f"Known: {', '.join(self.peaks)}.")
        return known

    def sram_elements(self, dtype: str) -> int:
        """Return M of the papers: one SM's shared memory in elements.

        Registers do not count: kernels cannot address them.
        """
        return self.level("shared").capacity_bytes // ELEMENT_BYTES[DTYPE_ALIASES.get(dtype, dtype)]

    def attainable_flops_per_s(self, intensity: float, dtype: str, level: LevelName = "hbm") -> float:
        """Return the roofline at `intensity` FLOP per byte, in FLOP/s.

        It is min(peak, intensity x bandwidth).

        Source: Williams, Waterman, Patterson 2009. The bandwidth of a per-SM level counts for all SMs together. Raises
        `UsageError` where the bandwidth or the peak is unknown.
        """
        return min(self.peak(dtype).flops_per_s, intensity * self.bandwidth_bytes_per_s(level))

    def bandwidth_bytes_per_s(self, level: LevelName) -> float:
        """Return the bandwidth of a level over all SMs.

        Raises `UsageError` where it is unknown.
        """
        found = self.level(level)
        if found.bandwidth_bytes_per_s is None:
            raise UsageError(
                f"{self.name}: the bandwidth of {level} is not known ({found.bandwidth_source})",
                "Measure it with ioaware calibrate, or name another machine.",
            )
        return found.bandwidth_bytes_per_s * (self.sms if found.scope == "sm" else 1)

    def ridge_flops_per_byte(self, dtype: str, level: LevelName = "hbm") -> float:
        """Return the intensity of the roofline's ridge.

        Below it `level` bounds the time, above it arithmetic.
        """
        return self.peak(dtype).flops_per_s / self.bandwidth_bytes_per_s(level)
