"""Compare one measured point with the same point of another run.

Its bytes, its times, and whether they may be compared are judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ioaware.gate.measured.rank_intervals import MOST_ROUNDS, Interval, interval
from ioaware.gate.verdict import Verdict, worst
from ioaware.result import BYTES_HOLD, Result, Traffic

HBM_TOLERANCE = 0.02
"""HBM bytes of two runs of one kernel differ by what the L2 happens to hold.

Beyond this they have grown.
"""
SAME_WITHIN = 0.02
"""Times are SAME where the whole interval is within this."""
TOO_FEW_ROUNDS = "too few rounds on record to decide at this many points"
REPEAT = "measure the old version again (--again)"
CLOCK_POLICY = ("max_sm_clock_mhz", "max_memory_clock_mhz", "application_sm_clock_mhz", "power_limit_mw")
SAME_MACHINE = ("gpu", "driver", "triton", "torch", "cuda", *CLOCK_POLICY)
"""Entries of the environment that both sides must share."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One point: the verdict on its bytes, on its time, and why.

    `ratio` is new over old time.
    """

    target: str
    params: str
    bytes_verdict: Verdict
    bytes_reason: str
    time_verdict: Verdict | None
    time_reason: str
    ratio: float | None = None

    @property
    def blocks(self) -> bool:
        """Return whether the point fails a build.

        It fails by bytes that are not proven to hold, or a time that has grown.
        """
        return not self.bytes_verdict.passes or self.time_verdict is Verdict.WORSE

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        found: dict[str, Any] = {"target": self.target, "params": self.params}
        found |= {"bytes_verdict": str(self.bytes_verdict), "bytes_reason": self.bytes_reason}
        if self.time_verdict is not None:
            found |= {"time_verdict": str(self.time_verdict), "time_reason": self.time_reason}
        return found | ({"time_ratio": self.ratio} if self.ratio is not None else {})


def compare_rows(old: Result, new: Result, again: Result | None, *, level: float, least: float, cross_device: bool) -> Compared:
    """Return the verdict on a point of two runs.

    `again` is the old version measured once more, after the new one.

    `level` is the chance of a false alarm that noise within the runs may give this point. `least` is the relative change of
    time that differences between runs do not explain.
    """
    sides = [side for side in (old, new, again) if side is not None]
    why = next(_unusable(sides, cross_device=cross_device), "")
    params = ", ".join(f"{name}={value}" for name, value in new.params.items() if value is not None)
    if why:
        return Compared(new.target, params, Verdict.INCOMPARABLE, why, None, "")
    byte_verdict, byte_reason = _bytes(old, new)
    time_verdict, time_reason, ratio = _time(old, new, again, level, least)
    return Compared(new.target, params, byte_verdict, byte_reason, time_verdict, time_reason, ratio)


def _unusable(sides: Sequence[Result], *, cross_device: bool) -> Iterator[str]:
    """Yield why the sides cannot be compared."""
    for side in sides:
        if side.status not in BYTES_HOLD:
            yield f"a point is {side.status}"
        if side.check and not side.check.passed:
            yield "an output is wrong"
    first = sides[0].environment or {}
    for name in () if cross_device else SAME_MACHINE:
        for side in sides[1:]:
            other = (side.environment or {}).get(name)
            if first.get(name) != other:
                yield f"{name} is {first.get(name)} and {other}"


def _bytes(old: Result, new: Result) -> tuple[Verdict, str]:
    """Return the worst verdict of requested and HBM bytes.

    Requested bytes are compared exactly, HBM bytes beyond a tolerance.
    """
    found = [
        *_places("requested", old.requested, new.requested, 0.0),
        *_places("hbm", old.hbm, new.hbm, HBM_TOLERANCE),
    ]
    if not found:
        return Verdict.INCOMPARABLE, "neither side has bytes"
    verdict = worst(verdict for verdict, _ in found)
    return verdict, next(reason for one, reason in found if one is verdict)


def _places(place: str, old: Traffic | None, new: Traffic | None, tolerance: float) -> Iterator[tuple[Verdict, str]]:
    if old is None and new is None:
        return
    for name in ("read_bytes", "write_bytes", "atomic_bytes", "read_sector_bytes", "write_sector_bytes"):
        before, after = getattr(old, name, None), getattr(new, name, None)
        if before is None and after is None:
            continue
        label = f"{place} {name.removesuffix('_bytes').replace('_', ' ')}s"
        if before is None or after is None:
            yield Verdict.INCOMPARABLE, f"{label} are known on one side only"
        elif after > before * (1 + tolerance):
            yield Verdict.WORSE, f"{label}: {before:,} -> {after:,} ({_percent(after, before)})"
        elif after < before * (1 - tolerance):
            yield Verdict.BETTER, f"{label}: {before:,} -> {after:,} ({_percent(after, before)})"
        else:
            yield Verdict.SAME, "equal"


def _percent(new: float, old: float) -> str:
    return f"{100 * (new - old) / old:+.1f} %" if old else "from none"


def _time(
    old: Result, new: Result, again: Result | None, level: float, least: float
) -> tuple[Verdict | None, str, float | None]:
    """Return the verdict on time.

    It is WORSE where time and cycles have grown, against each run of the old version.
    """
    if old.timing is None and new.timing is None:
        return None, "", None
    if old.timing is None or new.timing is None:
        return Verdict.UNSURE, "timed on one side only", None
    if "throttled" in (old.status, new.status):
        return Verdict.UNSURE, "the clocks moved", None
    intervals: list[Interval] = []
    for before in (old, again) if again else (old,):
        found = time_interval(before, new, level)
        if found is None:
            return Verdict.UNSURE, TOO_FEW_ROUNDS, None
        intervals.append(found)
        if (clocks := _clock_ratio(before, new)) is not None:
            intervals.append(found.scaled(clocks))
        elif found.low > 1 or found.high < 1:
            return Verdict.UNSURE, "no clocks on record to confirm it in cycles", found.ratio
    return _time_verdict(intervals, least, repeated=again is not None)


def _time_verdict(intervals: Sequence[Interval], least: float, *, repeated: bool) -> tuple[Verdict, str, float]:
    ratio = intervals[0].ratio
    low, high = min(one.low for one in intervals), max(one.high for one in intervals)
    spread = f"{100 * (ratio - 1):+.1f} % ({100 * (low - 1):+.1f} to {100 * (high - 1):+.1f} %)"
    if low > 1 and min(one.ratio for one in intervals) >= 1 + least:
        return Verdict.WORSE, spread, ratio
    if high < 1 and max(one.ratio for one in intervals) <= 1 - least:
        return Verdict.BETTER, spread, ratio
    if low >= 1 - SAME_WITHIN and high <= 1 + SAME_WITHIN:
        return Verdict.SAME, spread, ratio
    if low <= 1 <= high:
        return Verdict.UNSURE, spread, ratio
    remedy = "" if repeated else "; " + REPEAT
    return Verdict.UNSURE, f"{spread}: two runs of one version may differ by {100 * least:.1f} %{remedy}", ratio


def time_interval(old: Result, new: Result, level: float) -> Interval | None:
    """Return the interval of new time over old time.

    None where a side has too few rounds for the level.
    """
    before, after = (side.timing.rounds_ns[:MOST_ROUNDS] if side.timing else () for side in (old, new))
    return interval(before, after, level)


def _clock_ratio(old: Result, new: Result) -> float | None:
    """Return the new SM clock over the old one, each the mean of before and after.

    None where one is unknown.
    """
    clocks = [_clock(side) for side in (old, new)]
    return clocks[1] / clocks[0] if clocks[0] and clocks[1] else None


def _clock(side: Result) -> float | None:
    known = [clock for clock in (side.sm_clock_mhz("before"), side.sm_clock_mhz("after")) if clock]
    return sum(known) / len(known) if known else None
