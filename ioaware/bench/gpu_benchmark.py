"""Time calls on the GPU in interleaved rounds, and refuse unstable ones.

The module also collects what pytest-benchmark saves beside the times.

Each round is one call by CUDA events after the L2 was flushed and its persisting lines were reset.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ioaware.bench.interleaving import race
from ioaware.bench.statistics import paired_ratio
from ioaware.environment import software_environment
from ioaware.errors import InconclusiveError
from ioaware.measurement.nvml import Limits, Snapshot
from ioaware.measurement.stability import THROTTLE_REASONS, throttled_reasons, unstable_reasons
from ioaware.measurement.timing import median_error
from ioaware.result import Result

ROUNDS, WARM_UP_ROUNDS, LEAST_ROUNDS = 30, 5, 5
LARGEST_ERROR = 0.02
"""Relative standard error of the median above which rounds are refused."""
CLOCKS = ("sm_clock_mhz", "memory_clock_mhz", "power_mw", "temperature_c")
Call = Callable[[], object]


class BenchmarkDevice(Protocol):
    """Interface of a GPU: limits, versions, processes, snapshots, timers of calls."""

    @property
    def limits(self) -> Limits: ...

    @property
    def uuid(self) -> str | None: ...

    @property
    def cuda_version(self) -> str | None: ...

    @property
    def own_processes(self) -> frozenset[int]: ...

    def snapshot(self) -> Snapshot: ...

    def timer(self, run: Call) -> Callable[[], float]:
        """Return a function that times one call after flushing the L2.

        It flushes the L2, runs the call once and returns its nanoseconds.
        """
        ...


@dataclass
class _FlushedClock:
    """A clock of `race` whose samples are single calls with a cold L2."""

    device: BenchmarkDevice
    timers: Mapping[str, Callable[[], float]]
    snapshots: list[Snapshot] = field(default_factory=list[Snapshot])

    def queue(self, name: str) -> Callable[[], float]:
        elapsed_ns = self.timers[name]()
        return lambda: elapsed_ns

    def snapshot(self) -> None:
        self.snapshots.append(self.device.snapshot())

    def synchronize(self) -> None:
        """Do nothing: each sample has ended."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """Nanoseconds of each call's rounds, and snapshots of the GPU during them."""

    times_ns: Mapping[str, Sequence[float]]
    snapshots: Sequence[Snapshot]


def measure_rounds(calls: Mapping[str, Call], device: BenchmarkDevice, rounds: int = ROUNDS) -> Rounds:
    """Time the calls in interleaved rounds, after warm-up rounds.

    Raises `InconclusiveError` for rounds that describe the machine and not the calls.
    """
    clock = _FlushedClock(device, {name: device.timer(run) for name, run in calls.items()})
    race(list(calls), WARM_UP_ROUNDS, clock)
    clock.snapshots[:] = [device.snapshot()]
    found = Rounds(race(list(calls), rounds, clock), clock.snapshots)
    clock.snapshot()
    if reasons := refusals(found, device):
        raise InconclusiveError(
            f"the rounds are unstable: {'; '.join(reasons)}",
            "Let the GPU cool, stop other work on it, and run the benchmark again.",
        )
    return found


def refusals(rounds: Rounds, device: BenchmarkDevice) -> list[str]:
    """List why rounds are refused.

    The reasons are throttling, other processes, and too few or too different times.
    """
    reasons = throttled_reasons(device.limits, rounds.snapshots)
    reasons += unstable_reasons(device.limits, rounds.snapshots, device.own_processes, device.uuid)
    for name, times in rounds.times_ns.items():
        if len(times) < LEAST_ROUNDS:
            reasons.append(f"{name}: {len(times)} rounds are fewer than {LEAST_ROUNDS}")
        elif not all(0 < time < math.inf for time in times):
            reasons.append(f"{name}: a round took no time, or has none")
        elif not (error := median_error(times)) <= LARGEST_ERROR:
            reasons.append(f"{name}: the median is known to {100 * error:.1f} %, more than {100 * LARGEST_ERROR:.0f} %")
    return reasons


def extra_info(name: str, rounds: Rounds, device: BenchmarkDevice, results: Sequence[Result]) -> dict[str, Any]:
    """Return what is saved beside the times of the call `name`.

    This is the GPU, versions, commit, clocks, throttle bits, bytes, FLOPs and other calls.
    """
    times = rounds.times_ns[name]
    bits = 0
    for snapshot in rounds.snapshots:
        bits |= snapshot.throttle_bits or 0
    found: dict[str, Any] = {
        "gpu": device.limits.name,
        "driver": device.limits.driver,
        "cuda": device.cuda_version,
        **software_environment(),
        "l2": "flushed and persisting lines reset before each round",
        "rounds": len(times),
        "median_relative_error": median_error(times),
        "throttle_bits": bits,
        "throttle_reasons": [reason for bit, reason in THROTTLE_REASONS.items() if bits & bit],
    }
    for clock in CLOCKS:
        values = [value for one in rounds.snapshots if (value := getattr(one, clock)) is not None]
        if values:
            found[clock] = {"min": min(values), "median": statistics.median(values), "max": max(values)}
    found |= work_info(results, statistics.median(times))
    others = {other: rounds.times_ns[other] for other in rounds.times_ns if other != name}
    if others:
        found["interleaved"] = {other: _against(times, other_times) for other, other_times in others.items()}
    return found


def work_info(results: Sequence[Result], median_ns: float) -> dict[str, Any]:
    """Return bytes and FLOPs of the call, each with its source, and their rates.

    They come from the results that describe the call.
    """
    found: dict[str, Any] = {}
    for result in results:
        known = {
            "requested_bytes": result.requested.total_bytes if result.requested else None,
            "hbm_bytes": result.hbm.total_bytes if result.hbm else None,
            "compulsory_bytes": result.compulsory.total_bytes if result.compulsory else None,
            "flops": result.flops,
        }
        for name, value in known.items():
            if value is not None and name not in found:
                found |= {name: value, f"{name}_source": result.source, f"{name}_exact": result.exact}
                found[f"{name}_per_s"] = value / (median_ns * 1e-9)
        for place, moved in (("requested", result.requested), ("hbm", result.hbm)):
            if moved is not None and moved.total_bytes is not None and f"{place}_read_bytes" not in found:
                found |= {f"{place}_read_bytes": moved.read_bytes, f"{place}_write_bytes": moved.write_bytes}
                found |= {f"{place}_atomic_bytes": moved.atomic_bytes} if moved.atomic_bytes is not None else {}
    return found


def _against(times: Sequence[float], others: Sequence[float]) -> dict[str, Any]:
    ratio = paired_ratio(others, times)
    return {"median_ns": statistics.median(others), "time_ratio": ratio.median, "ratio_p25": ratio.p25, "ratio_p75": ratio.p75}
