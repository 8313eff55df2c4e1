"""Time calls on a warm GPU; with pauses if the power cap lowers its clock.

The clocks are sampled before, during and after the timed calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ioaware.measurement.nvml import Gpu, Snapshot
from ioaware.measurement.stability import is_power_capped, throttled_reasons
from ioaware.measurement.timing import repeat
from ioaware.result import Timing

WARM_UP_S = 0.1
"""An idle GPU takes tens of milliseconds to raise its clock."""
COOL_DOWN_S = 1.0
"""Idle time before calls with pauses: the power cap averages over less."""
REST = 4
"""Idle time over busy time: the mean power is then far below every cap."""
SHORTEST_REST_S, LONGEST_REST_S = 0.005, 0.1


def time_calls(once: Callable[[], float], gpu: Gpu, budget_s: float) -> tuple[Timing, list[Snapshot], list[str]]:
    """Return the times of calls, NVML's snapshots around them, and notes.

    `once` returns nanoseconds. Where the power cap lowers the clock the calls are timed again with a pause between each two. If
    the clock then holds, those times are returned, with a note.
    """
    timing, snapshots = _repeat(once, gpu, budget_s)
    if not is_power_capped(snapshots):
        return timing, snapshots, []
    pause = min(max(REST * timing.median_ns * 1e-9, SHORTEST_REST_S), LONGEST_REST_S)

    def rested() -> float:
        time.sleep(pause)
        return once()

    time.sleep(COOL_DOWN_S)
    again, later = _repeat(rested, gpu, budget_s)
    if throttled_reasons(gpu.limits, later):
        return timing, snapshots, []
    note = f"timed with pauses of {pause * 1e3:.0f} ms between calls: without them the power cap lowers the clock"
    return again, later, [note]


def _repeat(once: Callable[[], float], gpu: Gpu, budget_s: float) -> tuple[Timing, list[Snapshot]]:
    warm = time.monotonic() + WARM_UP_S
    once()
    while time.monotonic() < warm:
        once()
    snapshots = [gpu.snapshot()]
    timing = repeat(once, budget_s=budget_s, clock=time.monotonic, every=lambda: snapshots.append(gpu.snapshot()))
    snapshots.append(gpu.snapshot())
    return timing, snapshots
