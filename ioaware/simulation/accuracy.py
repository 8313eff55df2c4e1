"""Compare predictions with recorded counters.

The numbers are relative errors by kernel family and place, with a cause for each outlier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ioaware.result import BYTES_HOLD, Launch, Result

Place = Literal["requested reads", "requested writes", "HBM reads", "HBM writes"]
PLACES: tuple[Place, ...] = ("requested reads", "requested writes", "HBM reads", "HBM writes")
MIN_BYTES: Mapping[Place, int] = {
    "requested reads": 1_000_000,
    "requested writes": 1_000_000,
    "HBM reads": 1_000_000,
    "HBM writes": 30_000_000,
}
"""Counters below this are compared in bytes alone.

One launch leaves up to 30 MB of its writes in an H200's L2.
"""
OUTLIER: Mapping[Place, float] = dict.fromkeys(PLACES, 0.05)
PROFILER_DIRTY_BYTES = 2_500_000
"""Bytes that the profiler leaves dirty in the L2.

On an H200, kernels that read more than the L2 holds and write less than 1 MB are counted 2.46 to 2.75 MB of HBM writes.
"""


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


@dataclass(frozen=True, slots=True)
class Accuracy:
    """All comparisons, and the points without a prediction with the reason."""

    comparisons: tuple[Comparison, ...]
    unpredicted: tuple[tuple[str, str], ...]

    @property
    def rows(self) -> list[Row]:
        """Rows by family and place, then all families together."""
        groups: dict[tuple[str, Place], list[Comparison]] = defaultdict(list)
        for one in self.comparisons:
            groups[one.family, one.place].append(one)
            groups["all", one.place].append(one)
            if one.held_out:
                groups["held out", one.place].append(one)
        together = ("all", "held out")
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


def compare(measured: Iterable[Result], predictions: Iterable[Prediction], held_out: Collection[str] = frozenset()) -> Accuracy:
    """Compare every recorded launch with its prediction."""
    by_key = {point_key(one.target, one.params): one for one in predictions}
    comparisons: list[Comparison] = []
    unpredicted: list[tuple[str, str]] = []
    for result in measured:
        if result.source != "measure" or result.hbm is None or result.status not in BYTES_HOLD:
            continue
        point = point_key(result.target, result.params)
        launches = [launch for launch in result.launches if launch.origin == "triton"]
        prediction = by_key.get(point)
        reason = _unusable(prediction, launches)
        if prediction is None or reason:
            unpredicted.append((point, reason))
            continue
        family = kernel_family(result.target)
        for launch, predicted in zip(launches, prediction.launches, strict=True):
            found = _compare_launch(family, point, launch, predicted)
            comparisons += [replace(one, held_out=point in held_out) for one in found]
    return Accuracy(tuple(comparisons), tuple(unpredicted))


def _unusable(prediction: Prediction | None, launches: Sequence[Launch]) -> str:
    if prediction is None:
        return "no prediction is recorded"
    if prediction.failed:
        return prediction.failed
    if [one.kernel for one in prediction.launches] != [one.kernel for one in launches]:
        return "the measured launches differ from the predicted ones: the kernels changed"
    return ""


def _compare_launch(family: str, point: str, counted: Launch, one: PredictedLaunch) -> list[Comparison]:
    """Return comparisons at the places of one launch.

    A place needs both a prediction and a counter.
    """
    profiler = PROFILER_DIRTY_BYTES if one.fills_l2 else 0
    requested, hbm = counted.requested, counted.hbm
    every = (0, None)
    partition_mask: list[tuple[Place, int | None, int | None, tuple[int, int | None]]] = [
        ("requested reads", one.requested_read_bytes, requested and requested.read_bytes, every),
        ("requested writes", one.requested_write_bytes, requested and requested.write_bytes, every),
        ("HBM reads", one.hbm_read_bytes, hbm and hbm.read_bytes, one.read_range),
        ("HBM writes", one.hbm_write_bytes + profiler, hbm and hbm.write_bytes, one.write_range),
    ]
    found: list[Comparison] = []
    for place, predicted, number, (low, high) in partition_mask:
        if predicted is None or number is None:
            continue
        slack = MIN_BYTES["requested reads"]
        inside = low - slack <= number and (high is None or number <= high + profiler + slack)
        comparison = Comparison(family, point, counted.kernel, place, predicted, number, inside)
        if (comparison.error or 0) > OUTLIER[place]:
            why = _explanation(comparison, counted, one)
            comparison = Comparison(family, point, counted.kernel, place, predicted, number, inside, why)
        found.append(comparison)
    return found


def _explanation(one: Comparison, counted: Launch, predicted: PredictedLaunch) -> str:
    """Return the first known cause that fits, or "not explained"."""
    requested = counted.requested
    more_writes = bool(
        requested
        and requested.write_bytes
        and predicted.requested_write_bytes
        and requested.write_bytes > 1.05 * predicted.requested_write_bytes
    )
    if counted.local_bytes:
        return "register spills, which are not in the IR"
    if predicted.read_range[1] is None or predicted.read_range[1] > 20 * max(predicted.hbm_read_bytes, 1):
        return "addresses or trip counts depend on data: only a range is predicted"
    if one.place == "requested reads":
        return "the L1 serves part of the requests" if one.counted < one.predicted else "more sectors than tiles: see explain"
    if more_writes:
        return "partial-sector stores: the L2 receives more than derived and writes some lines back early"
    if one.inside:
        return "sensitive to capacity and skew: inside the predicted range"
    return "not explained"


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
