"""Compute the goals of the race, each with its target.

They are geometric mean, worst point and share of the ceilings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ioaware.bench.attention_points import Pass
from ioaware.bench.race_record import Entry, Record
from ioaware.bench.registry import OWN, PLAIN, TUTORIAL, TUTORIAL_FILE
from ioaware.bench.statistics import Spread, geometric_mean, paired_ratio, spread

LONG = 4096


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure of merit over some points. `value` None: no point to compute it from."""

    name: str
    value: float | None
    at_least: float
    points: int
    worst: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the value reaches its target; None without a value."""
        return None if self.value is None else self.value >= self.at_least


def own_entry(record: Record) -> Entry | None:
    """Return the entry of our back end, where it ran."""
    entry = record.entry(OWN)
    return entry if entry and entry.status == "ok" else None


def best_other(record: Record) -> Entry | None:
    """Return the fastest entry that is not ours."""
    others = [entry for entry in record.entries if entry.status == "ok" and entry.name not in (OWN, PLAIN)]
    return min(others, key=lambda entry: spread(entry.times_ns).median, default=None)


def ratio(record: Record) -> Spread | None:
    """Return the speed-up over the best other back end.

    It is its time over ours, in each round.
    """
    ours, other = own_entry(record), best_other(record)
    return paired_ratio(other.times_ns, ours.times_ns) if ours and other else None


def plain_ratio(record: Record) -> Spread | None:
    """Return the speed-up of plain Triton over the tutorial.

    The tutorial is its own file or our version, whichever is faster.
    """
    ours = record.entry(PLAIN)
    theirs = [entry for name in (TUTORIAL, TUTORIAL_FILE) if (entry := record.entry(name)) and entry.status == "ok"]
    if ours is None or ours.status != "ok" or not theirs:
        return None
    return min((paired_ratio(other.times_ns, ours.times_ns) for other in theirs), key=lambda found: found.median)


def speed(record: Record, entry: Entry) -> Spread:
    """Return FLOP/s or, where bytes are the limit, compulsory bytes per second."""
    amount = record.point.compulsory_bytes if record.point.bound_by_bytes else record.point.flops
    return spread([amount / (time_ns * 1e-9) for time_ns in entry.times_ns])


def share(record: Record, entry: Entry) -> float | None:
    """Return the share of the measured ceiling: the matmul's rate, or the copy's."""
    ceiling = record.copy_bytes_per_s if record.point.bound_by_bytes else record.matmul_flops_per_s
    return speed(record, entry).median / spread(ceiling).median if ceiling else None


def goals(records: Sequence[Record]) -> list[Goal]:
    """Return each goal that has a point among the records."""
    judged = [
        *_against_others("forward", records, 1.05, 1.00),
        *_against_others("backward", records, 1.05, 0.97),
        _least(
            f"forward, head_dim 128 and 256, seq_len from {LONG}: share of the matmul ceiling",
            [(r, s) for r in records if _long(r) and (e := own_entry(r)) and (s := share(r, e)) is not None],
            0.85,
        ),
        _least(
            "decode: share of the copy ceiling",
            [(r, s) for r in records if r.point.what == "decode" and (e := own_entry(r)) and (s := share(r, e)) is not None],
            0.90,
        ),
        _least(
            "plain Triton against the tutorial's design: worst point",
            [(r, found.median) for r in records if (found := plain_ratio(r))],
            1.00,
        ),
    ]
    return [goal for goal in judged if goal.value is not None]


def _against_others(what: Pass, records: Iterable[Record], mean: float, worst: float) -> list[Goal]:
    """Return the goals against the best other back end."""
    found = [(record, each.median) for record in records if record.point.what == what and (each := ratio(record))]
    average = geometric_mean(value for _, value in found) if found else None
    return [
        Goal(f"{what}, against the best other: geometric mean", average, mean, len(found)),
        _least(f"{what}, against the best other: worst point", found, worst),
    ]


def _least(name: str, found: Sequence[tuple[Record, float]], at_least: float) -> Goal:
    """Return the goal of the worst point."""
    if not found:
        return Goal(name, None, at_least, 0)
    record, value = min(found, key=lambda pair: pair[1])
    return Goal(name, value, at_least, len(found), record.point.label)


def _long(record: Record) -> bool:
    """Return whether this is a long forward point of head_dim 128 or 256."""
    point = record.point
    return point.what == "forward" and point.head_dim in (128, 256) and point.seq_len >= LONG
