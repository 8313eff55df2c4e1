"""List the reasons why a point may describe the machine and not the kernel.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ioaware.measurement.nvml import Limits, Snapshot
from ioaware.result import Launch, Traffic, total

POWER_CAP = 0x4
THROTTLE_REASONS = {
    POWER_CAP: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""NVML's clocks-event reasons for a clock below the GPU's own choice."""

LOW_CLOCK = 0.75
"""Share of the maximum SM clock below which a loaded GPU is throttled.

It is nvbench's threshold.
"""

CLOCK_STEP = 0.05
"""A larger change of clock within a point makes its repetitions incomparable."""

COMPULSORY_SLACK = 0.01
BANDWIDTH_SLACK = 0.02
"""Tolerance of the peak.

Counters and time come from different passes of ncu's replay.
"""


def is_power_capped(loaded: Iterable[Snapshot]) -> bool:
    """Return whether the power cap lowered the clock in any snapshot."""
    return any((snapshot.throttle_bits or 0) & POWER_CAP for snapshot in loaded)


def throttled_reasons(limits: Limits, loaded: Sequence[Snapshot]) -> list[str]:
    """List why a point's time is invalid, though not its bytes.

    The evidence is snapshots taken under load.
    """
    reasons = [
        f"{name} (clocks-event reason {bit:#x})"
        for bit, name in THROTTLE_REASONS.items()
        if any((snapshot.throttle_bits or 0) & bit for snapshot in loaded)
    ]
    reasons += _clock_reasons(limits, [snapshot.sm_clock_mhz for snapshot in loaded if snapshot.sm_clock_mhz], "SM")
    memory = [snapshot.memory_clock_mhz for snapshot in loaded if snapshot.memory_clock_mhz]
    reasons += _step_reason(memory, "memory")
    hottest = max((snapshot.temperature_c for snapshot in loaded if snapshot.temperature_c is not None), default=None)
    if hottest is not None and limits.slowdown_temperature_c and hottest >= limits.slowdown_temperature_c:
        reasons.append(f"{hottest} C, at or above the slowdown temperature of {limits.slowdown_temperature_c} C")
    return reasons


def unstable_reasons(
    limits: Limits, loaded: Sequence[Snapshot], own_processes: Iterable[int], torch_uuid: str | None
) -> list[str]:
    """List why all numbers of a point are invalid.

    The reasons are other processes, a MIG partition, and another GPU.
    """
    reasons: list[str] = []
    own = set(own_processes)
    foreign = {process for snapshot in loaded for process in snapshot.processes} - own
    if foreign:
        reasons.append(f"{len(foreign)} other process{'es' if len(foreign) > 1 else ''} computing on this GPU")
    if limits.mig:
        reasons.append("MIG is on: counters and clocks are shared with other instances")
    if any(snapshot.uuid != limits.uuid for snapshot in loaded):
        reasons.append("the GPU changed during the measurement")
    if torch_uuid is not None and torch_uuid.removeprefix("GPU-") != limits.uuid.removeprefix("GPU-"):
        reasons.append("torch computes on another GPU than the one NVML watches")
    return reasons


def _clock_reasons(limits: Limits, clocks: Sequence[int], what: str) -> list[str]:
    if not clocks:
        return []
    low = []
    if limits.max_sm_clock_mhz and min(clocks) < LOW_CLOCK * limits.max_sm_clock_mhz:
        low = [f"{what} clock at {min(clocks)} MHz, below {LOW_CLOCK:.0%} of its {limits.max_sm_clock_mhz} MHz"]
    return low + _step_reason(clocks, what)


def _step_reason(clocks: Sequence[int], what: str) -> list[str]:
    if clocks and min(clocks) < (1 - CLOCK_STEP) * max(clocks):
        return [f"{what} clock stepped between {min(clocks)} and {max(clocks)} MHz"]
    return []


def impossible_reasons(launches: Sequence[Launch], compulsory: Traffic | None, peak_hbm_bytes_per_s: int | None) -> list[str]:
    """List physical contradictions.

    All kernels together, torch's too, must read every input byte once.

    HBM writes are not checked: a kernel's last dirty lines are still in the L2 when it ends.
    """
    if not launches:
        return []
    reasons: list[str] = []
    for place, moved in (
        ("requested", total(launch.requested for launch in launches)),
        ("hbm", total(launch.hbm for launch in launches)),
    ):
        for direction in ("read_bytes", "write_bytes"):
            floor, seen = getattr(compulsory, direction, None), getattr(moved, direction, None)
            if floor is None or seen is None or (place, direction) == ("hbm", "write_bytes"):
                continue
            if not seen >= (1 - COMPULSORY_SLACK) * floor:
                reasons.append(f"{place} {direction} {seen} below the compulsory {floor}")
    for launch in launches:
        moved = launch.hbm.total_bytes if launch.hbm else None
        if moved is None or not launch.time_ns or not peak_hbm_bytes_per_s:
            continue
        rate = moved / (launch.time_ns * 1e-9)
        if not rate <= (1 + BANDWIDTH_SLACK) * peak_hbm_bytes_per_s:
            reasons.append(
                f"{launch.kernel}: {rate / 1e12:.2f} TB/s from HBM, above the peak of {peak_hbm_bytes_per_s / 1e12:.2f}"
            )
    return reasons
