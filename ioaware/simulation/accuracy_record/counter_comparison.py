"""Compare predictions with recorded counters, launch by launch or call by call."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ioaware.calibration.fit import PROFILER_DIRTY_BYTES
from ioaware.result import BYTES_HOLD, Launch, Result, Traffic
from ioaware.simulation.accuracy import (
    MIN_BYTES,
    OUTLIER,
    Accuracy,
    Comparison,
    Place,
    PredictedLaunch,
    Prediction,
    kernel_family,
    point_key,
)
from ioaware.simulation.accuracy_record.l1_reuse import L1Answer, reuse_by_launch
from ioaware.simulation.accuracy_record.outlier_causes import cause
from ioaware.simulation.accuracy_record.repeated_counts import Repeated, counted_again
from ioaware.simulation.accuracy_record.steady_state import call_as_launch, is_steady

Range = tuple[int, int | None]
EVERY: Range = (0, None)


def compare(
    measured: Iterable[Result],
    predictions: Iterable[Prediction],
    held_out: Collection[str] = frozenset(),
    steady: Iterable[Prediction] = (),
    l1: Mapping[str, L1Answer] | None = None,
    repeated: Repeated | None = None,
) -> Accuracy:
    """Compare every recorded launch with its prediction.

    `steady` are the predictions of calls in steady state. `l1` says by point whose loads hit in the L1, and `repeated` what was
    counted a second time.
    """
    by_key = {point_key(one.target, one.params): one for one in predictions}
    calls = {point_key(one.target, one.params): one for one in steady}
    comparisons: list[Comparison] = []
    unpredicted: list[tuple[str, str]] = []
    for result in measured:
        if result.source != "measure" or result.hbm is None or result.status not in BYTES_HOLD:
            continue
        point, in_call = point_key(result.target, result.params), is_steady(result)
        launches = [launch for launch in result.launches if launch.origin == "triton"]
        if in_call:
            launches = [call_as_launch(result)]
        prediction = (calls if in_call else by_key).get(point)
        reason = _unusable(prediction, launches)
        if prediction is None or reason:
            unpredicted.append((point, reason))
            continue
        family = kernel_family(result.target)
        held = in_call or point in held_out
        reuse = reuse_by_launch(result, launches, prediction.launches, (l1 or {}).get(point))
        again = (repeated or {}).get((in_call, point), ())
        for at, (launch, predicted, hits) in enumerate(zip(launches, prediction.launches, reuse, strict=True)):
            found = _compare_launch(family, point, launch, predicted, in_call=in_call, l1_reuse=hits)
            second = (counted_again(again, at, launch.kernel, one.place) for one in found)
            known = [replace(one, held_out=held, counted_again=bytes_) for one, bytes_ in zip(found, second, strict=True)]
            comparisons += [_explained(one, launch, predicted) for one in known]
    return Accuracy(tuple(comparisons), tuple(unpredicted))


def _written(one: PredictedLaunch) -> Range:
    """Return the least and most requested writes."""
    predicted = one.requested_write_bytes or 0
    least, most = one.least_requested_write_bytes, one.most_requested_write_bytes
    return predicted if least is None else least, predicted if most is None else most


def _unusable(prediction: Prediction | None, launches: Sequence[Launch]) -> str:
    if prediction is None:
        return "no prediction is recorded"
    if prediction.failed:
        return prediction.failed
    if [one.kernel for one in prediction.launches] != [one.kernel for one in launches]:
        return "the measured launches differ from the predicted ones: the kernels changed"
    return ""


def _compare_launch(
    family: str, point: str, counted: Launch, one: PredictedLaunch, *, in_call: bool, l1_reuse: bool
) -> list[Comparison]:
    """Return comparisons at the places of one launch.

    A place needs both a prediction and a counter.
    """
    profiler = PROFILER_DIRTY_BYTES if one.fills_l2 else 0
    requested, hbm = counted.requested or Traffic(), counted.hbm or Traffic()
    reads: Place = "requested reads, L1 reuse" if l1_reuse else "requested reads, no L1 reuse"
    writes: Place = "HBM writes, steady state" if in_call else "HBM writes"
    places: Mapping[Place, tuple[int | None, int | None, Range]] = {
        reads: (one.requested_read_bytes, requested.read_bytes, EVERY),
        "requested writes": (one.requested_write_bytes, requested.write_bytes, _written(one)),
        "HBM reads": (one.hbm_read_bytes, hbm.read_bytes, one.read_range),
        writes: (one.hbm_write_bytes + profiler, hbm.write_bytes, one.write_range),
    }
    found: list[Comparison] = []
    for place, (predicted, number, (low, high)) in places.items():
        if predicted is None or number is None:
            continue
        slack = MIN_BYTES["HBM reads"]
        inside = low - slack <= number and (high is None or number <= high + profiler + slack)
        found.append(Comparison(family, point, counted.kernel, place, predicted, number, inside))
    return found


def _explained(one: Comparison, counted: Launch, predicted: PredictedLaunch) -> Comparison:
    """Return the comparison, an outlier with its cause."""
    return replace(one, explanation=cause(one, counted, predicted)) if (one.error or 0) > OUTLIER[one.place] else one
