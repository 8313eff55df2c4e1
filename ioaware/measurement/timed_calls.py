"""Time calls on a warm GPU; with pauses if the power cap lowers its clock.

The clocks are sampled before, during and after the timed calls. After a pause the first milliseconds are slower, so some calls
run before the timed one.
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
BUSY_NS = 5e6
"""Work between two pauses, at least."""
LONGEST_REST_S = 0.1


def time_calls(once: Callable[[], float], gpu: Gpu, budget_s: float) -> tuple[Timing, list[Snapshot], list[str]]:
    """Return the times of calls, NVML's snapshots around them, and notes.

    `once` returns nanoseconds. Where the power cap lowers the clock the calls are timed again, the last one of each few between
    two pauses. If the clock then holds, those times are returned, with a note.
    """
    timing, snapshots = _repeat(once, gpu, budget_s)
    if not is_power_capped(snapshots):
        return timing, snapshots, []
    calls = max(1, round(BUSY_NS / timing.median_ns))
    pause = min(REST * calls * timing.median_ns * 1e-9, LONGEST_REST_S)

    def rested() -> float:
        time.sleep(pause)
        return [once() for _ in range(calls)][-1]

    time.sleep(COOL_DOWN_S)
    again, later = _repeat(rested, gpu, budget_s)
    if throttled_reasons(gpu.limits, later):
        return timing, snapshots, []
    each = "each call" if calls == 1 else f"each {calls} calls, the last of which is timed"
    note = f"pauses of {pause * 1e3:.0f} ms before {each}: without them the power cap lowers the clock"
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
