"""Decide how often to repeat, and summarise by medians and quartiles.

Pure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from ioaware.result import Timing

MINIMUM_COUNT = 5
MAXIMUM_COUNT = 2000
MINIMUM_S = 0.2
ROUNDS_KEPT = 32
TARGET_ERROR = 0.005
"""Relative standard error of the median at which repeating stops.

It is nvbench's noise target.
"""


def repeat(once: Callable[[], float], *, budget_s: float, clock: Callable[[], float], every: Callable[[], object]) -> Timing:
    """Repeat `once` until the median is precise or the budget is spent.

    `once` returns nanoseconds.

    At least five times and 0.2 s. `every` is called after each tenth of the budget, to sample the clocks.
    """
    times: list[float] = []
    start = looked = clock()
    while not _enough(times, clock() - start, budget_s):
        times.append(once())
        if clock() - looked >= budget_s / 10:
            every()
            looked = clock()
    return summarize(times)


def _enough(times: Sequence[float], elapsed_s: float, budget_s: float) -> bool:
    if len(times) < MINIMUM_COUNT:
        return False
    if elapsed_s >= budget_s or len(times) >= MAXIMUM_COUNT:
        return True
    return elapsed_s >= MINIMUM_S and median_error(times) <= TARGET_ERROR


def median_error(times: Sequence[float]) -> float:
    """Return the relative standard error of the median.

    It is 1.2533 (IQR / 1.349) / sqrt(n) / median.

    Exact for a normal distribution, robust against outliers.
    """
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return 1.2533 * (high - low) / 1.349 / len(times) ** 0.5 / median if median > 0 else math.inf


def summarize(times: Sequence[float]) -> Timing:
    """Return the quartiles of at least two times in nanoseconds."""
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    kept = min(ROUNDS_KEPT, len(times))
    rounds = tuple(times[at * len(times) // kept] for at in range(kept))
    return Timing(median_ns=median, p25_ns=low, p75_ns=high, min_ns=min(times), count=len(times), rounds_ns=rounds)
