"""Schedule programs in launch order on a number of slots.

A slot takes the next program when its program ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapreplace

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Times = NDArray[np.float64]
MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
"""Multipliers of the SplitMix64 hash, Steele, Lea and Flood 2014."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Start time, slot and wave of each program.

    The wave is the program's number // slots.
    """

    start: Times
    slot: Numbers
    wave: Numbers

    def partitions(self, programs: Numbers) -> Numbers:
        """Return the L2 partitions of these programs' SMs, each as a mask.

        Programs go to whatever SM is free: a hash of the program's number stands for chance.
        """
        mixed = programs.astype(np.uint64) + np.uint64(1)
        for shift, factor in zip((30, 27), MIXERS, strict=True):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * factor
        return (np.uint64(1) << (mixed >> np.uint64(63))).astype(np.int64)


def schedule(durations: Times, slots: int, delays: Times | None = None) -> Schedule:
    """Place programs on slots.

    `durations` are in units of time; `delays` delay the first program of each slot.
    """
    count = durations.size
    numbers = np.arange(count, dtype=np.int64)
    wave = numbers // slots
    if delays is None and count and durations.min() == durations.max():
        return Schedule((wave * float(durations[0])).astype(np.float64), numbers % slots, wave)
    begun = np.zeros(slots) if delays is None else delays
    start, slot = np.empty(count), np.empty(count, dtype=np.int64)
    free = sorted((float(time), at) for at, time in enumerate(begun[: min(slots, max(count, 1))]))
    for number, duration in enumerate(durations.tolist()):
        time, at = free[0]
        start[number], slot[number] = time, at
        heapreplace(free, (time + duration, at))
    return Schedule(start, slot, wave)
