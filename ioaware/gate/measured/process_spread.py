"""Estimate how far two runs of one version differ in time.

A change must exceed this.
Why: rounds of one process do not show what differs between processes, such as where its memory lies. Only a second run of the
same version does. Of 106 pairs of runs on an H200 that stand in docs/results/gpu-benchmarks.md, the largest differs by 1.1 %.
"""

from __future__ import annotations

from collections.abc import Sequence

from ioaware.gate.measured.rank_intervals import Interval

SLOWER = 0.01
"""A smaller change of time is none: clocks and placement move times by as much."""
UNKNOWN_SPREAD = 0.05
"""What a change must exceed where no second run shows the spread.

It is four times the largest difference on record.
"""
ENOUGH_ROWS = 20
"""Fewer rows do not show how far the next one may differ."""
PRECISE = 0.02
"""Largest half-width of an interval that shows the spread of other rows."""
FACTOR = 2
"""How far beyond the largest difference of two equal runs a change must lie.

By simulation with normal, Laplace and recorded differences (tests/gate/measured/test_process_spread.py): 50 rows then alarm
falsely in at most 1 % of runs.
"""


def least_change(repeats: Sequence[Interval | None]) -> list[float]:
    """Return the relative change of time that each row must exceed.

    `repeats` are the intervals of the old version's second run over its first, None where unknown.
    """
    precise = [abs(one.ratio - 1) for one in repeats if one and max(one.ratio - one.low, one.high - one.ratio) <= PRECISE]
    if len(precise) < ENOUGH_ROWS:
        return [max(UNKNOWN_SPREAD, FACTOR * abs(one.ratio - 1) if one else 0) for one in repeats]
    spread = max(precise)
    return [max(SLOWER, FACTOR * max(spread, abs(one.ratio - 1))) if one else UNKNOWN_SPREAD for one in repeats]
