"""Say which L2 partition the SM of each program reads through.

A GPU places the programs of the first wave GPC by GPC, and all SMs of a GPC are connected to one partition. So neighbouring
programs, which often read the same memory, mostly share a partition. A grid of fewer programs than SMs is spread over all GPCs
in proportion. A later program goes to the SM that is free first. Where programs take equally long, all end at almost one time
and chance decides; otherwise the order in which they end does, but for their deviations.

Source: `h200-partitions.json` in `ioaware/recorded/l2` has the partition of each SM, from the latency of lines that another SM
has read, and the SMs of the programs of many launches. The deviation is that of the sweeps in `h200-l2.json`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ioaware.simulation.schedule import Numbers, Schedule, Times, schedule, side_by_chance

RUNS = 58, 18, 8, 48
"""Programs in launch order whose SMs share a partition.

They are those of the first partition, the second, the first and the second.
"""
DEVIATION = 0.003
"""Standard deviation of a program's duration, for each program on its SM."""
EQUAL = 0.01
"""Programs whose durations deviate by less end in an order of chance."""


def with_sides(order: Schedule, durations: Times, slots: int, sms: int) -> Schedule:
    """Return the schedule with the partition of each program's SM.

    `slots` programs run at once on `sms` SMs.
    """
    count = durations.size
    if not count:
        return order
    numbers = np.arange(count, dtype=np.int64)
    in_order = float(np.std(durations)) > EQUAL * max(float(np.mean(durations)), 1.0) and slots < count
    places = _places_by_ends(durations, slots, sms) if in_order else numbers
    ends = np.cumsum(RUNS) * min(sms, count) / sum(RUNS)
    side = np.searchsorted(ends, places % sms, side="right") % 2 + 1
    return replace(order, sides=side if in_order else np.where(numbers < slots, side, side_by_chance(numbers)))


def _places_by_ends(durations: Times, slots: int, sms: int) -> Numbers:
    """Return the slot of each program where durations deviate by chance."""
    chance = np.random.Generator(np.random.PCG64(1)).standard_normal(durations.size)
    return schedule(durations * np.maximum(0.5, 1 + DEVIATION * max(1, slots // sms) * chance), slots).slot
