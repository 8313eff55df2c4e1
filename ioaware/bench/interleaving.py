"""Interleave candidates: in every round each runs once, in a changing order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

SAMPLE_NS = 4e6
"""Length of a sample, between the cost of starting it and slow effects.

It is long compared to that cost and short compared to the effects of a power limit.
"""
MAX_CALLS = 200


class Clock(Protocol):
    """Interface of a GPU clock.

    `queue` starts one sample of a candidate and returns a function for its nanoseconds. `snapshot` is called while the samples
    of a round run. `synchronize` waits for them.
    """

    def queue(self, name: str) -> Callable[[], float]: ...

    def snapshot(self) -> None: ...

    def synchronize(self) -> None: ...


def order(names: Sequence[str], number: int) -> list[str]:
    """Return the order of round `number`.

    Each pair of rounds is rotated by one, and its second is reversed.
    """
    start = number // 2 % len(names)
    turned = [*names[start:], *names[:start]]
    return turned[::-1] if number % 2 else turned


def race(names: Sequence[str], rounds: int, clock: Clock) -> Mapping[str, list[float]]:
    """Return the nanoseconds of each candidate's samples, one per round."""
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        queued = [(name, clock.queue(name)) for name in order(names, number)]
        clock.snapshot()
        clock.synchronize()
        for name, elapsed in queued:
            times[name].append(elapsed())
    return times


def calls_in_sample(one_ns: float) -> int:
    """Return how many calls make a sample of a candidate that takes one_ns per call."""
    return max(1, min(MAX_CALLS, round(SAMPLE_NS / max(one_ns, 1.0))))
