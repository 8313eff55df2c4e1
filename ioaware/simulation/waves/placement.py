"""Place programs on SMs, and say which L2 partition each reads through.

A GPU places the programs of the first wave GPC by GPC, and all SMs of a GPC are connected to one partition. So neighbouring
programs, which often read the same memory, mostly share a partition. A grid of fewer programs than SMs is spread over all GPCs
in proportion. A later program goes to the SM that is free first. Where programs take equally long, all end at almost one time
and chance decides; otherwise the order in which they end does, but for their deviations.

A program's duration is a sum of waits for memory, of which each deviates by chance. So programs that started together end
apart, and programs of an SM are close in number where its slots are free at about the same time.

Where tensor cores draw most power, each GPC has a clock of its own (`h200-paces.json`, beside `h200-partitions.json`). Programs
of a fast GPC get ahead, more in each wave. How far is a matter of the GPU and of the moment.

Source: `h200-partitions.json` in `ioaware/recorded/l2` has the partition of each SM, from the latency of lines that another SM
has read, and the SMs of the programs of many launches. The deviation is that of the sweeps in `h200-l2.json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ioaware.simulation.schedule import ALMOST, Numbers, Schedule, Times, schedule, side_by_chance
from ioaware.simulation.timeline import Executions

RUNS = 58, 18, 8, 48
"""Programs in launch order whose SMs share a partition.

They are those of the first partition, the second, the first and the second.
"""
DEVIATION = 0.003
"""Standard deviation of a program's duration, for each program on its SM."""
DEVIATION_OF_WAIT = 0.27
"""Standard deviation of one wait of a program for memory, over the mean.

It waits as often as the access runs that it makes most often. Kernels in `h200-placement.json` in `ioaware/recorded/l1` have
from 0.1 to 1.1, by the durations of their programs; with this one, rows that programs read again hit as they were counted.
"""
PACES = (16, 1.007), (16, 1.004), (48, 1.0), (16, 0.993), (18, 0.99), (18, 1.006)
"""SMs in launch order and the time that a program takes there, over the mean.

They are those of the first launch of `h200-paces.json`, one of those with clocks farthest apart.
"""
SHORTEST, LONGEST = 0.5, 1.5
"""Durations of programs over their mean, at most."""
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


def placed_by_clocks(durations: Times, slots: int, sms: int) -> Schedule:
    """Place programs on SMs whose clocks differ by GPC.

    `slots` programs run at once on `sms` SMs.
    """
    edges = np.cumsum([number for number, _ in PACES]) * sms / sum(number for number, _ in PACES)
    paces = np.array([pace for _, pace in PACES])[np.searchsorted(edges, np.arange(slots) % sms, side="right")]
    order = schedule(durations, slots, paces=paces)
    return _advancing(order, durations, durations * paces[order.slot])


def placed_by_ends(durations: Times, waits: Times, slots: int) -> Schedule:
    """Place programs that wait so often, by waits that deviate by chance.

    A slot takes the next program when its program ends; its number modulo the SMs is the SM. Where all run at once, none waits
    for an end, and rows that programs read again hit as if all advanced evenly.
    """
    if durations.size <= slots:
        return schedule(durations, slots)
    taken = _deviating(durations, DEVIATION_OF_WAIT / np.sqrt(waits))
    return _advancing(schedule(taken, slots), durations, taken)


def _advancing(order: Schedule, work: Times, taken: Times) -> Schedule:
    """Return the schedule with programs that advance evenly.

    Each does its `work` in the time `taken`.
    """
    numbers = np.arange(work.size, dtype=np.float64)
    done, time = np.stack((numbers, numbers + ALMOST), 1), np.stack((order.start, order.start + taken), 1)
    return replace(order, progress=(done.ravel(), time.ravel()), durations=work)


def waits(executions: Sequence[Executions], programs: int) -> Times:
    """Return how often the busiest access of each program runs, at least once."""
    most = np.ones(programs)
    for one in executions:
        times = None if one.low is None or one.high is None else np.maximum(one.high - one.low, 0)
        np.maximum(most, np.bincount(one.program, times, programs), out=most)
    return most


def _places_by_ends(durations: Times, slots: int, sms: int) -> Numbers:
    """Return the slot of each program where durations deviate by chance."""
    return schedule(_deviating(durations, DEVIATION * max(1, slots // sms)), slots).slot


def _deviating(durations: Times, deviation: Times | float) -> Times:
    """Return the durations with so large a standard deviation, as a share of each."""
    chance = np.random.Generator(np.random.PCG64(1)).standard_normal(durations.size)
    return durations * np.clip(1 + deviation * chance, SHORTEST, LONGEST)
