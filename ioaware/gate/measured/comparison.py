"""Compare two runs of measured points as a whole.

Points are paired and share the chance of a false alarm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ioaware.errors import UsageError
from ioaware.gate.measured.measured_row import Compared, compare_rows, time_interval
from ioaware.gate.measured.process_spread import least_change
from ioaware.gate.verdict import BaselineError, Verdict, worst
from ioaware.result import Result
from ioaware.strict_json import is_there

FALSE_ALARMS = 0.01
"""Chance that a run without any change raises an alarm about time.

It is shared by all points together (Bonferroni).
"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every point, the worst first, and those that are on one side only."""

    points: tuple[Compared, ...]
    new_points: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Return the worst verdict of bytes, and WORSE where a time has grown.

        Unsure times alone block nothing.
        """
        return worst([*(Verdict.WORSE if one.time_verdict is Verdict.WORSE else one.bytes_verdict for one in self.points)])

    @property
    def unsure_times(self) -> int:
        """Return how many times decide nothing."""
        return sum(one.time_verdict is Verdict.UNSURE for one in self.points)

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            "schema": 1,
            "verdict": str(self.verdict),
            "unsure_times": self.unsure_times,
            "new_points": list(self.new_points),
            "points": [one.to_dict() for one in self.points],
        }


def measured_results(path: Path) -> list[Result]:
    """Return the measured records of a store, a JSONL file or a JSON file.

    Raises `BaselineError` where there are none.
    """
    if not is_there(path):
        raise BaselineError(f"there is no file {path}", "Measure it: ioaware sweep STUDY --store FILE.")
    if path.suffix == ".json":
        from ioaware.gate.measured.json_results import json_results

        found = json_results(path)
    elif path.suffix == ".jsonl":
        from ioaware.result_file import read_jsonl

        found = list(read_jsonl(path))
    else:
        from ioaware.sweep.store import Store

        with Store(path, readonly=True) as store:
            found = store.results()
    measured = [result for result in found if result.source == "measure"]
    if not measured:
        raise BaselineError(f"{path} holds no measured point", "Sweep a study with the source measure into it.")
    return measured


def compare_runs(
    old: Sequence[Result],
    new: Sequence[Result],
    again: Sequence[Result] | None = None,
    *,
    cross_device: bool = False,
    allow_missing: bool = False,
) -> Comparison:
    """Compare two runs point by point.

    `again` is the old version measured once more (A/B/A).

    Raises `BaselineError` for a point that one side lacks; new points are listed with `allow_missing`.
    """
    before, after = _keyed(old), _keyed(new)
    third = _keyed(again) if again is not None else None
    gone = sorted(before.keys() - after.keys()) + sorted(set() if third is None else before.keys() - third.keys())
    added = sorted(after.keys() - before.keys())
    if gone or (added and not allow_missing):
        side = "new" if gone else "old"
        lines = ", ".join(f"{target} {params}" for target, params in (gone or added)[:3])
        raise BaselineError(f"{len(gone or added)} points are missing in the {side} run: {lines}", "Measure them.")
    level = FALSE_ALARMS / len(before)
    keys = list(before)
    least = least_change([time_interval(before[key], third[key], level) if third else None for key in keys])
    points = [
        compare_rows(
            before[key], after[key], third[key] if third else None, level=level, least=change, cross_device=cross_device
        )
        for key, change in zip(keys, least, strict=True)
    ]
    points.sort(key=lambda one: (not one.blocks, -(one.ratio or 0)))
    return Comparison(tuple(points), tuple(f"{target} {params}" for target, params in added))


def _keyed(results: Sequence[Result]) -> dict[tuple[str, str], Result]:
    found: dict[tuple[str, str], Result] = {}
    for result in results:
        params = " ".join(f"{name}={value}" for name, value in sorted(result.params.items()) if value is not None)
        if found.setdefault((result.target, params), result) is not result:
            raise UsageError(f"{result.target} {params} was measured twice in one run", "Compare runs of one machine each.")
    return found
