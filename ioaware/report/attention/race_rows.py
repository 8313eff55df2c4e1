"""Make rows on the speed of attention against the fastest other back end.

They also show where that one wins, and how far rounds differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ioaware.bench.goals import best_other, own_entry, ratio, share
from ioaware.bench.race_record import Record
from ioaware.bench.registry import OWN
from ioaware.bench.statistics import spread
from ioaware.report.table_cells import cell, columns

WORDS = ("pass", "d", "shape", "best other")
COLUMNS = columns("points", "slowest", "fastest", "others win at", "share of the ceiling", "round to round", words=WORDS)
Row = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Speed of this package over the best other back end at one point."""

    record: Record
    value: float


def race_rows(records: Sequence[Record]) -> list[Row]:
    """Return a row per pass, head_dim and shape.

    The rows are of the points that this package and another back end ran.
    """
    groups: dict[tuple[str, int, str], list[Ratio]] = {}
    for record in records:
        found = ratio(record)
        if found is not None:
            point = record.point
            groups.setdefault((point.what, point.head_dim, _shape(record)), []).append(Ratio(record, found.median))
    order = ("forward", "backward", "decode")
    return [_row(*key, groups[key]) for key in sorted(groups, key=lambda key: (order.index(key[0]), key[1], key[2]))]


def losses(records: Sequence[Record]) -> list[Ratio]:
    """Return the points where another back end is faster, the slowest first."""
    found = [Ratio(record, one.median) for record in records if (one := ratio(record)) is not None and one.median < 1]
    return sorted(found, key=lambda one: one.value)


def widest_spread(records: Sequence[Record]) -> float:
    """Return the largest half interquartile range of a time, over its median."""
    timed = [entry for one in records for entry in one.entries if entry.status == "ok"]
    return max((spread(entry.times_ns).relative for entry in timed), default=0.0)


def _shape(record: Record) -> str:
    point = record.point
    if point.what != "decode":
        return "causal" if point.causal else "full"
    group = point.heads // point.kv_heads
    return f"{point.seq_len} row{'s' * (point.seq_len > 1)} × {group} head{'s' * (group > 1)} a key head"


def _row(what: str, head_dim: int, shape: str, seen: Sequence[Ratio]) -> Row:
    shares = [found for one in seen if (own := own_entry(one.record)) and (found := share(one.record, own)) is not None]
    others = dict.fromkeys(other.name for one in seen if (other := best_other(one.record)))
    worst, best = min(one.value for one in seen), max(one.value for one in seen)
    lost = sum(one.value < 1 for one in seen)
    rounds = max(spread(entry.times_ns).relative for one in seen for entry in one.record.entries if entry.name == OWN)
    return [
        cell(what),
        cell(head_dim),
        cell(shape),
        cell(", ".join(others)),
        cell(len(seen), len(seen)),
        cell(f"{worst:.2f}×", worst),
        cell(f"{best:.2f}×", best),
        cell(lost or "none", lost),
        cell(f"{100 * min(shares):.0f} % to {100 * max(shares):.0f} %" if shares else "", min(shares, default=0.0)),
        cell(f"±{100 * rounds:.1f} %", rounds),
    ]
