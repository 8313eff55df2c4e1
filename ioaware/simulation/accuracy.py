"""Define predictions of recorded points, and their errors by family and place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

Place = Literal[
    "requested reads, no L1 reuse",
    "requested reads, L1 reuse",
    "requested writes",
    "HBM reads",
    "HBM writes",
    "HBM writes, steady state",
]
PLACES: tuple[Place, ...] = get_args(Place)
"""Places that are compared.

Requested reads have L1 reuse unless the L1's counters or its model say that there is none. Writes go through the L1.
"""
MIN_BYTES: Mapping[Place, int] = {**dict.fromkeys(PLACES, 1_000_000), "HBM writes": 30_000_000}
"""Counters below this are compared in bytes alone.

One launch leaves up to 30 MB of its writes in an H200's L2.
"""
GOALS: Mapping[Place, tuple[float, float, float]] = {
    "requested reads, no L1 reuse": (0, 0.001, 0.005),
    "requested reads, L1 reuse": (0.01, 0.03, 0.05),
    "requested writes": (0, 0.001, 0.005),
    "HBM reads": (0.01, 0.05, 0.1),
    "HBM writes, steady state": (0.01, 0.05, 0.1),
}
"""Goals for the median, 95th percentile and worst error."""
PREDICTED_AGAIN = "predicted again, none held out"
"""Rows of predictions by a later model, made after the points were measured."""
OUTLIER: Mapping[Place, float] = dict.fromkeys(PLACES, 0.05)


@dataclass(frozen=True, slots=True)
class PredictedLaunch:
    """Predicted bytes of one launch.

    A range is the least and most bytes; None means unbounded.
    """

    kernel: str
    requested_read_bytes: int | None
    requested_write_bytes: int | None
    hbm_read_bytes: int
    hbm_write_bytes: int
    read_range: tuple[int, int | None]
    write_range: tuple[int, int | None]
    fills_l2: bool
    l1_served_bytes: int | None = None
    """Requested reads that the L1s serve; None where it is not known."""
    most_requested_write_bytes: int | None = None
    """Requested writes where the L1 merges none of the instructions' requests.

    None where that was not predicted.
    """
    least_requested_write_bytes: int | None = None
    """Requested writes where it merges all of them; None where no range was predicted."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Prediction of one recorded point. `failed` is the reason where there is none."""

    target: str
    params: Mapping[str, Any]
    launches: tuple[PredictedLaunch, ...] = ()
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Predicted and counted bytes of one launch at one place.

    `explanation` is empty unless it is an outlier.
    """

    family: str
    point: str
    kernel: str
    place: Place
    predicted: int
    counted: int
    inside: bool
    explanation: str = ""
    held_out: bool = False
    """Whether the point was measured after the model was fixed."""
    counted_again: int | None = None
    """The counter of a second run; None where there was none."""

    @property
    def deviates(self) -> bool:
        """Whether the counter of a second run is as far off as an outlier."""
        return self.counted_again is not None and abs(self.counted_again - self.counted) > OUTLIER[self.place] * self.counted

    @property
    def error(self) -> float | None:
        """Relative error; None where the counter is too small to divide by."""
        if self.counted < MIN_BYTES[self.place]:
            return None
        return abs(self.predicted - self.counted) / self.counted


@dataclass(frozen=True, slots=True)
class Row:
    """Relative errors of one family at one place.

    Counters below `MIN_BYTES` enter `small` and `worst_small_bytes` only.
    """

    family: str
    place: Place
    count: int
    median: float
    percentile_95: float
    worst: float
    inside: int
    small: int
    worst_small_bytes: int

    @property
    def has_range(self) -> bool:
        """Whether a range is predicted at this place."""
        return not self.place.startswith("requested reads")


@dataclass(frozen=True, slots=True)
class Accuracy:
    """All comparisons, and the points without a prediction with the reason."""

    comparisons: tuple[Comparison, ...]
    unpredicted: tuple[tuple[str, str], ...]
    again: tuple[Comparison, ...] = ()
    """The same counters against predictions of a later model.

    They were made after measuring: none is held out.
    """
    made: str = "as first recorded, those of held-out points by a model that was fixed before they were measured"
    """Which predictions the comparisons are of, for readers."""

    @property
    def rows(self) -> list[Row]:
        """Rows by family and place, then all families together.

        The last are of all families, `PREDICTED_AGAIN`.
        """
        groups: dict[tuple[str, Place], list[Comparison]] = defaultdict(list)
        for one in self.comparisons:
            groups[one.family, one.place].append(one)
            groups["all", one.place].append(one)
            if one.held_out:
                groups["held out", one.place].append(one)
        for one in self.again:
            groups[PREDICTED_AGAIN, one.place].append(one)
        together = ("all", "held out", PREDICTED_AGAIN)
        order = sorted(groups, key=lambda key: (key[0] in together, key[0], PLACES.index(key[1])))
        return [_row(family, place, groups[family, place]) for family, place in order]

    @property
    def outliers(self) -> list[Comparison]:
        """Outliers, the largest error first."""
        found = [one for one in self.comparisons if one.error is not None and one.error > OUTLIER[one.place]]
        return sorted(found, key=lambda one: -(one.error or 0))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "schema": 1,
            "predictions": self.made,
            "rows": [
                {
                    "family": row.family,
                    "place": row.place,
                    "count": row.count,
                    "median": row.median,
                    "percentile_95": row.percentile_95,
                    "worst": row.worst,
                    "inside_range": row.inside,
                    "small": row.small,
                    "worst_small_bytes": row.worst_small_bytes,
                    **({"goals": list(GOALS[row.place])} if row.place in GOALS else {}),
                }
                for row in self.rows
            ],
            "outliers": [
                {
                    "point": one.point,
                    "kernel": one.kernel,
                    "place": one.place,
                    "predicted_bytes": one.predicted,
                    "counted_bytes": one.counted,
                    **({} if one.counted_again is None else {"counted_again_bytes": one.counted_again}),
                    "inside_range": one.inside,
                    "explanation": one.explanation,
                    "held_out": one.held_out,
                }
                for one in self.outliers
            ],
            "without": [{"point": point, "reason": reason} for point, reason in self.unpredicted],
        }


def point_key(target: str, params: Mapping[str, Any]) -> str:
    """Return a name for a point that does not depend on the order of its parameters."""
    given = " ".join(f"{name}={params[name]}" for name in sorted(params) if params[name] is not None)
    return f"{target} {given}"


def kernel_family(target: str) -> str:
    """Return the kernel family of a target.

    It is a case, an attention kernel, or a third-party library.
    """
    place, _, name = target.rpartition(":")
    if place.endswith(".py"):
        return f"third-party: {place.rpartition('/')[2].removesuffix('.py')}"
    return name


def _row(family: str, place: Place, group: Sequence[Comparison]) -> Row:
    errors = sorted(one.error for one in group if one.error is not None)
    small = [abs(one.predicted - one.counted) for one in group if one.error is None]
    return Row(
        family,
        place,
        len(errors),
        _quantile(errors, 0.5),
        _quantile(errors, 0.95),
        errors[-1] if errors else 0.0,
        sum(one.inside for one in group),
        len(small),
        max(small, default=0),
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile by linear interpolation; 0 of an empty sequence."""
    if not ordered:
        return 0.0
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])
