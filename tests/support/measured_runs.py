"""Runs of measured points with random times.

They have noise, changed bytes and times, and machine drift.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence

from ioaware.result import Result, Timing, Traffic

Noise = Callable[[random.Random], float]
ENVIRONMENT = {"gpu": "NVIDIA H200", "driver": "580.1", "triton": "3.6.0", "torch": "2.11.0", "cuda": "13.0"}


def gaussian(sigma: float) -> Noise:
    return lambda draw: max(0.01, draw.gauss(1, sigma))


def skewed(draw: random.Random) -> float:
    """Draw a time of a GPU.

    It has a steady minimum, a tail above it, and sometimes an outlier.
    """
    return 1 + draw.expovariate(200) + (0.2 if draw.random() < 0.02 else 0)


def point(
    number: int = 0,
    times: Sequence[float] = (),
    *,
    read_bytes: int = 1_000_000,
    hbm_bytes: int = 900_000,
    clock_mhz: int = 1980,
) -> Result:
    """Return one measured point. Its times are in nanoseconds."""
    low, median, high = statistics.quantiles(times, n=4, method="inclusive") if times else (0.0, 0.0, 0.0)
    timing = Timing(median, low, high, min(times), len(times), tuple(times)) if times else None
    clocks = {"sm_clock_mhz": clock_mhz}
    return Result(
        source="measure",
        target="add",
        params={"n": number},
        requested=Traffic(read_bytes, 4_000),
        hbm=Traffic(hbm_bytes, 3_000),
        exact=False,
        timing=timing,
        telemetry={"before": clocks, "after": clocks},
        environment=ENVIRONMENT,
    )


def times(
    draw: random.Random, noise: Noise, *, rounds: int = 9, slower: float = 1.0, drift: tuple[float, float] = (1, 1)
) -> list[float]:
    """Return the rounds of a point.

    `drift` is the machine's speed in the first and the last round.
    """
    first, last = drift
    return [1e5 * slower * (first + (last - first) * at / rounds) * noise(draw) for at in range(rounds)]


def run(seed: int, noise: Noise, points: int = 50, rounds: int = 9) -> list[Result]:
    """Return a run of several points of the same kernels."""
    draw = random.Random(seed)
    return [point(number, times(draw, noise, rounds=rounds)) for number in range(points)]
