"""Schedule programs in launch order on a number of slots.

A slot takes the next program when its program ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from ioaware.simulation.compiled import compiled, inlined

ALMOST = 1 - 1e-6
"""Share of a program's work at its end: 1 would be the next one's start."""
Numbers = NDArray[np.int64]
Times = NDArray[np.float64]
MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
"""Multipliers of the SplitMix64 hash, Steele, Lea and Flood 2014."""


@dataclass(frozen=True, slots=True)
class AgedSm:
    """SM that serves the oldest of its programs first.

    `rates` are those of its programs over that of the oldest, which comes first.
    """

    rates: tuple[float, ...]

    @property
    def programs(self) -> int:
        """How many run at once."""
        return len(self.rates)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Start time, slot and wave of each program.

    The wave is the program's number // slots.
    """

    start: Times
    slot: Numbers
    wave: Numbers
    progress: tuple[Times, Times] | None = None
    """Number of a program plus the share of its work that is done, and the time.

    None where programs advance evenly, a unit of work a unit of time.
    """
    durations: Times | None = None
    sides: Numbers | None = None
    """L2 partition of each program's SM, as a mask; None where chance decides."""
    alike: int = 1
    """So many programs in a row are one `progress`, each on an SM of its own.

    `slot` has these SMs where there are several.
    """

    def times(self, programs: Numbers, work: Times) -> Times:
        """Return when programs have done so much of their work."""
        if self.progress is None or self.durations is None:
            return work + self.start[programs]
        done = np.minimum(work / np.maximum(self.durations[programs], 1.0), ALMOST)
        return np.interp(programs // self.alike + done, *self.progress)

    def partitions(self, programs: Numbers) -> Numbers:
        """Return the L2 partitions of these programs' SMs, each as a mask."""
        return side_by_chance(programs) if self.sides is None else self.sides[programs]


def _by_chance(place: Numbers, group: Numbers) -> Numbers:
    """Return the places with those of each group but the first in an order by a hash."""
    found = place.copy()
    later = np.flatnonzero(group > 0)
    order = later[np.lexsort((mixed(later), group[later]))]
    found[order] = place[later[np.lexsort((later, group[later]))]]
    return found


def side_by_chance(programs: Numbers) -> Numbers:
    """Return an L2 partition for each program, as a mask.

    A hash of the program's number stands for chance.
    """
    return (np.uint64(1) << (mixed(programs) >> np.uint64(63))).astype(np.int64)


def mixed(programs: Numbers) -> NDArray[np.uint64]:
    """Return a hash of 64 bits of the numbers of programs."""
    mixed = programs.astype(np.uint64) + np.uint64(1)
    for shift, factor in zip((30, 27), MIXERS, strict=True):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * factor
    return mixed


def schedule(durations: Times, slots: int, delays: Times | None = None, paces: Times | None = None) -> Schedule:
    """Place programs on slots.

    `durations` are in units of time; `delays` delay the first program of each slot. A program takes `paces` times as long, by
    its slot; the schedule's times of its accesses do not follow from it.
    """
    count = durations.size
    numbers = np.arange(count, dtype=np.int64)
    wave = numbers // slots
    if delays is None and paces is None and count and durations.min() == durations.max():
        return Schedule((wave * float(durations[0])).astype(np.float64), numbers % slots, wave)
    begun = np.zeros(slots) if delays is None else delays
    start, slot = np.empty(count), np.empty(count, dtype=np.int64)
    free = np.argsort(begun[: min(slots, max(count, 1))], kind="stable")
    _take_turns(durations, begun[free].astype(np.float64), free, np.ones(slots) if paces is None else paces, start, slot)
    return Schedule(start, slot, wave)


@compiled
def _take_turns(durations: Times, free_at: Times, slots: Numbers, paces: Times, start: Times, slot: Numbers) -> None:
    """Give each program the slot that is free first, of two the lower one.

    `free_at` and `slots` are a binary heap of slots, by time and number: heapq takes ten times as long.
    """
    count = slots.size
    for number in range(durations.size):
        at = slots[0]
        start[number], slot[number] = free_at[0], at
        end, place, child = free_at[0] + durations[number] * paces[at], 0, 1
        while child < count:
            other = child + 1
            if other < count and _earlier(free_at[other], slots[other], free_at[child], slots[child]):
                child = other
            if _earlier(end, at, free_at[child], slots[child]):
                break
            free_at[place], slots[place] = free_at[child], slots[child]
            place, child = child, 2 * child + 1
        free_at[place], slots[place] = end, at


@inlined
def _earlier(end: float, slot: int, other_end: float, other_slot: int) -> bool:
    """Return whether a slot is free before another one, or at once and lower."""
    return end < other_end or (end == other_end and slot < other_slot)


def schedule_by_age(durations: Times, slots: int, sm: AgedSm) -> Schedule:
    """Place programs on SMs that serve older programs first; their mean rate is 1."""
    sms, count = max(1, slots // sm.programs), durations.size
    if sms > 1 and count > slots and durations.min() == durations.max():
        return _alike(schedule_by_age(durations[: -(-count // sms)], sm.programs, sm), durations, slots, sms)
    first = min(slots, count)
    start, slot = np.zeros(count), np.arange(count, dtype=np.int64)
    left, now = durations.astype(np.float64).copy(), np.zeros(sms)
    running = [list(range(number, first, sms)) for number in range(sms)]
    by_age = np.array(sm.rates)
    marks: list[list[tuple[float, float]]] = [[(0.0, 0.0)] for _ in range(count)]

    def rates(number: int) -> Times:
        found = by_age[: len(running[number])]
        return found * (found.size / found.sum())

    def next_end(number: int) -> tuple[float, int]:
        return float(now[number] + (left[running[number]] / rates(number)).min()), number

    events = [next_end(number) for number in range(sms) if running[number]]
    heapify(events)
    following = first
    while events:
        time, number = heappop(events)
        group = running[number]
        left[group] -= (time - now[number]) * rates(number)
        now[number] = time
        for one in group:
            marks[one].append((min(ALMOST, 1 - left[one] / max(durations[one], 1.0)), time))
        last = group.pop(int(np.argmin(left[group])))
        if following < count:
            start[following], slot[following] = time, slot[last]
            marks[following][0] = (0.0, time)
            group.append(following)
            following += 1
        if group:
            heappush(events, next_end(number))
    done = np.array([number + share for number, each in enumerate(marks) for share, _ in each])
    progress = np.maximum.accumulate(done), np.array([time for each in marks for _, time in each])
    return Schedule(start, slot, np.arange(count) // slots, progress, durations)


def _alike(one: Schedule, durations: Times, slots: int, sms: int) -> Schedule:
    """Return the schedule of SMs that all do what one does.

    Each has programs of its own.
    """
    numbers = np.arange(durations.size, dtype=np.int64)
    turn, place = np.divmod(numbers, sms)
    slot = one.slot[turn] * sms + _by_chance(place, np.maximum(0, turn - slots // sms + 1))
    return Schedule(one.start[turn], slot, numbers // slots, one.progress, durations, alike=sms)
