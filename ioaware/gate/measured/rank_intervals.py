"""Estimate how much slower one run is than another.

The interval is by ranks, so it is valid for any distribution of the noise.

The Hodges-Lehmann interval (Hollander and Wolfe, Nonparametric Statistical Methods, section 4.3): the ratios of all pairs of
rounds, of which as many are cut off at either end as the Mann-Whitney distribution allows at the level. Without assumptions on
the noise few rounds decide nothing: at 9 rounds a side the smallest level is 1 in 48,620.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

MOST_ROUNDS = 32
INFINITY = math.inf


@dataclass(frozen=True, slots=True)
class Interval:
    """Estimate and interval of new time over old time.

    The interval misses the ratio at each end with at most the level.
    """

    ratio: float
    low: float
    high: float

    def scaled(self, factor: float) -> Interval:
        """Return the interval of the ratios times a factor, such as a ratio of clocks."""
        return Interval(self.ratio * factor, self.low * factor, self.high * factor)


def interval(old: Sequence[float], new: Sequence[float], level: float) -> Interval | None:
    """Return the interval at a one-sided level for each end.

    None where there are too few rounds for it.

    Rounds are positive numbers, at most 32 a side.
    """
    if not old or not new or not all(0 < time < INFINITY for time in (*old, *new)):
        return None
    cut = cut_at(len(old), len(new), level)
    if cut is None:
        return None
    rising = sorted(new)
    ratios = sorted([after / before for before in old for after in rising])  # of sorted parts, which merge faster
    middle = len(ratios) // 2
    estimate = ratios[middle] if len(ratios) % 2 else math.sqrt(ratios[middle - 1] * ratios[middle])
    return Interval(estimate, ratios[cut], ratios[-1 - cut])


@lru_cache(maxsize=4096)
def cut_at(m: int, n: int, level: float) -> int | None:
    """Return how many pairs may be cut off at each end.

    It is the largest u with P(U < u + 1) <= level, or None.
    """
    counts, total, below = pair_counts(min(m, n), max(m, n)), math.comb(m + n, m), 0
    allowed = level * total
    for u, count in enumerate(counts):
        below += count
        if below > allowed:
            return u - 1 if u else None
    return len(counts) - 1


@lru_cache(maxsize=1024)
def pair_counts(m: int, n: int) -> tuple[int, ...]:
    """Return how many orders of m + n different numbers have u pairs in reverse.

    The counts are for u = 0 .. m n.

    The coefficients of the Gaussian binomial: the product of (1 - x^(n + i)) / (1 - x^i) for i = 1 .. m. A polynomial is one
    integer here, with a slot of bytes for each coefficient, so that a product is a shift and a sum.
    """
    size = m * n + 1
    slot = 1 + (math.comb(m + n, m) * size).bit_length() // 8  # after a division a coefficient is a sum of earlier ones
    whole = (1 << 8 * slot * size) - 1
    product = 1
    for i in range(1, m + 1):
        power = i
        while power < size:  # 1 / (1 - x^i) is the product of 1 + x^i, 1 + x^(2 i), 1 + x^(4 i), ...
            product += product << 8 * slot * power & whole
            power *= 2
        product -= product << 8 * slot * (n + i) & whole
    content = product.to_bytes(slot * size, "little")
    return tuple(int.from_bytes(content[at : at + slot], "little") for at in range(0, slot * size, slot))
