"""Compute HBM bytes of tensors swept by waves of programs in closed form.

The regime of a simulated number gets its name here.

The model is attention in the order of FlashAttention-2. W programs run at a time, `rows` of them per KV head (the query rows of
a group count as one head's). K and V of one head have `footprint_bytes`; the usable L2 has `capacity_bytes`.

- Fits: every head is read once.
- lru: a cyclic sweep larger than the cache hits nothing; every (wave, head) pair reads the head again.
- sawtooth: sweeps of alternating direction hit the end of the previous one.
- random: random replacement.
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


def wave_head_pairs(heads: int, rows: int, at_once: int) -> int:
    """Return the number of (wave, head) pairs.

    Programs are in linear order, row block fastest, `rows` programs a head.
    """
    return sum(((head + 1) * rows - 1) // at_once - head * rows // at_once + 1 for head in range(heads))


def live_heads(heads: int, rows: int, at_once: int) -> float:
    """Return about how many heads a wave accesses."""
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
    pairs, live = wave_head_pairs(heads, rows, at_once), live_heads(heads, rows, at_once) * footprint_bytes
    if live <= capacity_bytes:
        return heads * footprint_bytes
    again = {"lru": 1.0, "sawtooth": 1 - capacity_bytes / live, "random": miss_share(live / capacity_bytes)}[policy]
    return footprint_bytes * (heads + (pairs - heads) * again)


def miss_share(load: float) -> float:
    """Return the miss ratio of a cyclic sweep under random replacement.

    It is m = 1 - exp(-m load) for a sweep of `load` times the capacity.
    """
    share = 1.0
    for _ in range(200):
        share = 1 - exp(-share * load)
    return share


def regime(read_bytes: float, distinct_bytes: float, by_wave_bytes: float) -> Regime:
    """Name the regime of a tensor.

    It follows from its HBM reads, its distinct bytes, and its distinct bytes by wave.
    """
    if read_bytes <= distinct_bytes * (1 + TOLERANCE):
        return "compulsory"
    if read_bytes > by_wave_bytes * (1 + TOLERANCE):
        return "leaking"
    return "thrashing" if read_bytes >= by_wave_bytes * (1 - TOLERANCE) else "between"
