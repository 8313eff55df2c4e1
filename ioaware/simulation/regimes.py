"""Closed forms of what HBM moves for tensors that waves of programs sweep, and the regime that a number is in.

For FA2-order attention, W programs at a time of `rows` each per KV head (query rows of a group count as one head's), K and V of
one head of `footprint_bytes`, `capacity_bytes` of usable L2 and `live_heads` of them at a time:
fits: every head once. thrashes: LRU under a cyclic sweep larger than the cache keeps nothing, every (wave, head) pair reads the
head again. sawtooth: sweeps that alternate direction find the end of the last one. random: a replacement that does not care.
"""

from __future__ import annotations

from math import exp
from typing import Literal

Policy = Literal["lru", "random", "sawtooth"]
Regime = Literal["compulsory", "between", "thrashing", "leaking"]
MEANING: dict[Regime, str] = {
    "compulsory": "read once: waves find in the L2 what waves before them read",
    "between": "part of what a wave reads is still there from the wave before",
    "thrashing": "every wave reads all it touches again: the sweep is larger than the usable L2",
    "leaking": "more than once a wave: the same program again, or programs of one wave too far apart to share",
}
TOLERANCE = 0.02


def incidences(heads: int, rows: int, at_once: int) -> int:
    """Return how many (wave, head) pairs there are: programs in linear order, row block fastest, `rows` programs a head."""
    return sum(((head + 1) * rows - 1) // at_once - head * rows // at_once + 1 for head in range(heads))


def live_heads(heads: int, rows: int, at_once: int) -> float:
    """Return about how many heads a wave touches."""
    return min(float(heads), 1 + at_once / rows)


def sweep_bytes(
    heads: int,
    rows: int,
    at_once: int,
    footprint_bytes: float,
    capacity_bytes: float,
    policy: Policy,
) -> float:
    """Return HBM reads of K and V in bytes, by the closed form of the policy."""
    pairs, live = incidences(heads, rows, at_once), live_heads(heads, rows, at_once) * footprint_bytes
    if live <= capacity_bytes:
        return heads * footprint_bytes
    again = {"lru": 1.0, "sawtooth": 1 - capacity_bytes / live, "random": miss_share(live / capacity_bytes)}[policy]
    return footprint_bytes * (heads + (pairs - heads) * again)


def miss_share(load: float) -> float:
    """Return m = 1 - exp(-m load): misses of a cyclic sweep of `load` times the capacity under random replacement."""
    share = 1.0
    for _ in range(200):
        share = 1 - exp(-share * load)
    return share


def regime(read_bytes: float, distinct_bytes: float, by_wave_bytes: float) -> Regime:
    """Name the regime of a tensor: read from HBM, its distinct bytes, and those of each wave, summed over waves."""
    if read_bytes <= distinct_bytes * (1 + TOLERANCE):
        return "compulsory"
    if read_bytes > by_wave_bytes * (1 + TOLERANCE):
        return "leaking"
    return "thrashing" if read_bytes >= by_wave_bytes * (1 - TOLERANCE) else "between"
