"""From counted probes to a machine: test the counters, then find capacities.

These are usable capacities, and what stays dirty is found too.

A sweep larger than a cache of least-recently-used lines misses everywhere, a smaller one nowhere. A real cache changes over a
range of sizes, because its lines are spread over sets. Capacity is the size at which half of the accesses miss, and the range
from 5 % to 95 % is its uncertainty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from ioaware.calibration.probes import PASSES, Probe, Sizes
from ioaware.errors import DataError

TRUSTED_ERROR = 0.01
HALF, FEW, MOST = 0.5, 0.05, 0.95
TWO_COPIES = 0.8
"""Share below which memory that all SMs read is kept twice.

The memory that all SMs read has then less room than this share of the room of memory that one SM reads.
"""
PROFILER_DIRTY_BYTES = 2_500_000
"""Bytes that the profiler leaves dirty in the L2 before a kernel.

On an H200, kernels that read more than the L2 holds and write less than 1 MB are counted 2.46 to 2.75 MB of HBM writes.
"""
OVERFLOWING = 2.0
"""Writes of so many times the L2 leave it full of dirty lines at the end."""


@dataclass(frozen=True, slots=True)
class Counted:
    """One probe's counters in bytes: requested (L1 to L2) and HBM."""

    probe: Probe
    requested_read_bytes: int
    requested_write_bytes: int
    hbm_read_bytes: int
    hbm_write_bytes: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """Bytes at which half of a sweep misses, and the spread around them.

    The spread is half of the range from 5 % to 95 %, as a share of them.
    """

    capacity_bytes: float
    spread: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Results of the probes.

    `l1` has the capacity for each L1 probe; None where no size of the sweep crossed a half.
    """

    l2_shared: Capacity
    l2_private: Capacity
    dirty_bytes: dict[str, float]
    l1: dict[str, Capacity | None]
    partitions: Literal[1, 2]

    @property
    def usable_l2_bytes(self) -> float:
        """Bytes of the L2 that a sweep can use.

        With two partitions, they are twice what all SMs can share.
        """
        return self.l2_shared.capacity_bytes * self.partitions

    @property
    def largest_dirty_bytes(self) -> float:
        """The most bytes that may be dirty at one time.

        A kernel that only stores leaves fewer of its own: those of the profiler were dirty before, and are counted as written.
        """
        return self.dirty_bytes["fill"] + PROFILER_DIRTY_BYTES


def calibrate(counted: Sequence[Counted], sizes: Sizes) -> Calibration:
    """Return the calibration.

    Raises `DataError` for counters that cannot be trusted, or sweeps without a crossing.
    """
    check_counters(counted)
    shared = _required(_misses(counted, "l2_shared", "hbm"), "the L2, read by all SMs")
    private = _required(_misses(counted, "l2_private", "hbm"), "the L2, each slice read by one SM")
    dirty = {
        kernel: float(max(one.probe.size_bytes - one.hbm_write_bytes for one in _of(counted, kernel)))
        for kernel in ("fill", "copy", "add")
    }
    l1 = {kernel: crossing(_misses(counted, kernel, "requested", sizes.sms)) for kernel in L1_PROBES}
    partitions: Literal[1, 2] = 2 if shared.capacity_bytes < TWO_COPIES * private.capacity_bytes else 1
    return Calibration(shared, private, dirty, l1, partitions)


L1_PROBES = ("l1_reread", "l1_beside_stores", "l1_after_stores")


def check_counters(counted: Sequence[Counted]) -> None:
    """Compare the probes of known bytes with their counters.

    Raises `DataError` where one is more than 1 % off.
    """
    for one in counted:
        known = zip(
            ("reads", "writes"), one.probe.known_bytes, (one.requested_read_bytes, one.requested_write_bytes), strict=True
        )
        for what, expected, seen in known:
            if expected and abs(seen - expected) > TRUSTED_ERROR * expected:
                raise DataError(
                    f"the counter of requested {what} cannot be trusted: {one.probe.kernel} of {one.probe.size_bytes} bytes "
                    f"requests {expected} bytes, and {seen} were counted",
                    "Another process may use the GPU, or ncu does not know it: `ioaware doctor`.",
                )


def crossing(sweep: Sequence[tuple[float, float]]) -> Capacity | None:
    """Return where a sweep of (bytes, miss share) crosses a half.

    It is by linear interpolation, and None where it does not cross.
    """
    half = _crossing(sweep, HALF)
    if half is None:
        return None
    few, most = _crossing(sweep, FEW) or half, _crossing(sweep, MOST) or sweep[-1][0]
    return Capacity(half, (most - few) / 2 / half)


def _crossing(sweep: Sequence[tuple[float, float]], level: float) -> float | None:
    """Return the first size at which the misses reach a level.

    None where they never do, or do at the first size.
    """
    for (size, share), (next_size, next_share) in pairwise(sweep):
        if share < level <= next_share:
            return size + (next_size - size) * (level - share) / (next_share - share)
    return None


def _required(sweep: Sequence[tuple[float, float]], what: str) -> Capacity:
    found = crossing(sweep)
    if found is None:
        shown = ", ".join(f"{share:.2f} at {size / 2**20:.1f} MiB" for size, share in sweep)
        raise DataError(
            f"no usable capacity of {what}: the misses never pass a half ({shown})", "Leave the GPU to this process."
        )
    return found


def _of(counted: Sequence[Counted], kernel: str) -> list[Counted]:
    return [one for one in counted if one.probe.kernel == kernel]


def _misses(
    counted: Sequence[Counted], kernel: str, place: Literal["hbm", "requested"], programs: int = 1
) -> list[tuple[float, float]]:
    """Return (bytes, share of the later passes that missed), by size.

    The bytes are those of a program or of all.
    """
    found: list[tuple[float, float]] = []
    for one in _of(counted, kernel):
        read = one.hbm_read_bytes if place == "hbm" else one.requested_read_bytes
        found.append((float(one.probe.size_bytes), (read / (programs * one.probe.size_bytes) - 1) / (PASSES - 1)))
    return sorted(found)
