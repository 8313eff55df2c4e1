"""Predictions against recorded counters: relative errors by kernel family and place, and what explains each outlier."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
"""Counters below this are compared in bytes alone. One launch leaves up to 30 MB of what it wrote in an H200's L2."""
OUTLIER: Mapping[Place, float] = dict.fromkeys(PLACES, 0.05)
PROFILER_DIRTY_BYTES = 2_500_000
"""What the profiler leaves dirty in the L2: kernels on an H200 that read more than the L2 holds and write less than 1 MB are
counted 2.46 to 2.75 MB of HBM writes."""


@dataclass(frozen=True, slots=True)
class PredictedLaunch:
    """One launch of a prediction; ranges are least and most bytes, None where nothing bounds them."""

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
    """A recorded point as predicted; `failed` says why there is nothing."""

    target: str
    params: Mapping[str, Any]
    launches: tuple[PredictedLaunch, ...] = ()
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """One number of one launch. `explanation` is empty where it is no outlier."""

    family: str
    point: str
    kernel: str
    place: Place
    predicted: int
    counted: int
    inside: bool
    explanation: str = ""

    @property
    def error(self) -> float | None:
        """Relative to the counter; None where that is too small to divide by."""
        if self.counted < MIN_BYTES[self.place]:
            return None
        return abs(self.predicted - self.counted) / self.counted


@dataclass(frozen=True, slots=True)
class Row:
    """One family at one place: relative errors, and the worst difference in bytes of counters too small for that."""

    family: str
    place: Place
    count: int
    median: float
    high: float
    worst: float
    inside: int
    small: int
    worst_small_bytes: int


@dataclass(frozen=True, slots=True)
class Accuracy:
    """All comparisons, and the points that have no prediction, with the reason."""

    compared: tuple[Compared, ...]
    without: tuple[tuple[str, str], ...]

    @property
    def rows(self) -> list[Row]:
        """By family and place, then all families together."""
        groups: dict[tuple[str, Place], list[Compared]] = defaultdict(list)
        for one in self.compared:
            groups[one.family, one.place].append(one)
            groups["all", one.place].append(one)
        order = sorted(groups, key=lambda key: (key[0] == "all", key[0], PLACES.index(key[1])))
        return [_row(family, place, groups[family, place]) for family, place in order]

    @property
    def outliers(self) -> list[Compared]:
        """The worst first."""
        found = [one for one in self.compared if one.error is not None and one.error > OUTLIER[one.place]]
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
                    "percentile_95": row.high,
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
                }
                for one in self.outliers
            ],
            "without": [{"point": point, "reason": reason} for point, reason in self.without],
        }


def key_of(target: str, params: Mapping[str, Any]) -> str:
    """Return a name for a point that does not depend on the order of its parameters."""
    given = " ".join(f"{name}={params[name]}" for name in sorted(params) if params[name] is not None)
    return f"{target} {given}"


def family_of(target: str) -> str:
    """Return the kernel family of a target: a case, an attention kernel, or the library that a third-party target is of."""
    place, _, name = target.rpartition(":")
    if place.endswith(".py"):
        return f"third-party: {place.rpartition('/')[2].removesuffix('.py')}"
    return name


def compare(measured: Iterable[Result], predictions: Iterable[Prediction]) -> Accuracy:
    """Set every recorded launch beside its prediction."""
    by_key = {key_of(one.target, one.params): one for one in predictions}
    compared: list[Compared] = []
    without: list[tuple[str, str]] = []
    for result in measured:
        if result.source != "measure" or result.hbm is None or result.status not in BYTES_HOLD:
            continue
        point = key_of(result.target, result.params)
        launches = [launch for launch in result.launches if launch.origin == "triton"]
        prediction = by_key.get(point)
        reason = _unusable(prediction, launches)
        if prediction is None or reason:
            without.append((point, reason))
            continue
        family = family_of(result.target)
        for launch, predicted in zip(launches, prediction.launches, strict=True):
            compared += _launch(family, point, launch, predicted)
    return Accuracy(tuple(compared), tuple(without))


def _unusable(prediction: Prediction | None, launches: Sequence[Launch]) -> str:
    if prediction is None:
        return "no prediction is recorded"
    if prediction.failed:
        return prediction.failed
    if [one.kernel for one in prediction.launches] != [one.kernel for one in launches]:
        return "other launches were measured than are predicted: the kernels changed"
    return ""


def _launch(family: str, point: str, counted: Launch, one: PredictedLaunch) -> list[Compared]:
    """Return the four places of one launch, those that both sides know."""
    profiler = PROFILER_DIRTY_BYTES if one.fills_l2 else 0
    requested, hbm = counted.requested, counted.hbm
    every = (0, None)
    sides: list[tuple[Place, int | None, int | None, tuple[int, int | None]]] = [
        ("requested reads", one.requested_read_bytes, requested and requested.read_bytes, every),
        ("requested writes", one.requested_write_bytes, requested and requested.write_bytes, every),
        ("HBM reads", one.hbm_read_bytes, hbm and hbm.read_bytes, one.read_range),
        ("HBM writes", one.hbm_write_bytes + profiler, hbm and hbm.write_bytes, one.write_range),
    ]
    found: list[Compared] = []
    for place, predicted, number, (low, high) in sides:
        if predicted is None or number is None:
            continue
        slack = MIN_BYTES["requested reads"]
        inside = low - slack <= number and (high is None or number <= high + profiler + slack)
        compared = Compared(family, point, counted.kernel, place, predicted, number, inside)
        if (compared.error or 0) > OUTLIER[place]:
            why = _explanation(compared, counted, one)
            compared = Compared(family, point, counted.kernel, place, predicted, number, inside, why)
        found.append(compared)
    return found


def _explanation(one: Compared, counted: Launch, predicted: PredictedLaunch) -> str:
    """Return the known cause that fits, or that there is none."""
    requested = counted.requested
    more_writes = bool(
        requested
        and requested.write_bytes
        and predicted.requested_write_bytes
        and requested.write_bytes > 1.05 * predicted.requested_write_bytes
    )
    if counted.local_bytes:
        return "registers are spilled, which the IR does not have"
    if predicted.read_range[1] is None or predicted.read_range[1] > 20 * max(predicted.hbm_read_bytes, 1):
        return "data decide where or how often it happens: only a range is predicted"
    if one.place == "requested reads":
        return (
            "the L1 serves part of what is requested" if one.counted < one.predicted else "more sectors than tiles: see explain"
        )
    if more_writes:
        return "stores of parts of sectors: the L2 is sent more than derived, and writes parts back early"
    if one.inside:
        return "sensitive to capacity and skew: inside the predicted range"
    return "not explained"


def _row(family: str, place: Place, group: Sequence[Compared]) -> Row:
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
    """Return the value below which that share lies, between neighbours in proportion; 0 of none."""
    if not ordered:
        return 0.0
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])
