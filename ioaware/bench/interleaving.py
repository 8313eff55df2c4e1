"""The race: in every round each contestant runs once, in an order that changes, so that no one always runs after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

SAMPLE_NS = 4e6
"""A sample holds as many calls as fit here: long beside what starting it costs, short beside what a power limit does."""
MOST_CALLS = 200


class Clock(Protocol):
    """What times work on a GPU. `queue` starts one sample of a contestant and returns at once what tells its nanoseconds;
    `look` is asked while the samples of a round still run; `settle` waits for them."""

    def queue(self, name: str) -> Callable[[], float]: ...

    def look(self) -> None: ...

    def settle(self) -> None: ...


def order(names: Sequence[str], number: int) -> list[str]:
    """Who runs when in round `number`: each pair of rounds begins one further on, its second goes backwards."""
    start = number // 2 % len(names)
    turned = [*names[start:], *names[:start]]
    return turned[::-1] if number % 2 else turned


def race(names: Sequence[str], rounds: int, clock: Clock) -> Mapping[str, list[float]]:
    """Nanoseconds of each contestant's sample, one a round."""
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        queued = [(name, clock.queue(name)) for name in order(names, number)]
        clock.look()
        clock.settle()
        for name, elapsed in queued:
            times[name].append(elapsed())
    return times


def calls_in_sample(one_ns: float) -> int:
    """How many calls make a sample, of a contestant of which one takes so long."""
    return max(1, min(MOST_CALLS, round(SAMPLE_NS / max(one_ns, 1.0))))
