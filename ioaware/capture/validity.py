"""Where formulas hold: a capture's conditions at other values, and a run of the host function where they leave a doubt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioaware.analysis.formulas.exact_ratio import Number
from ioaware.errors import UsageError
from ioaware.symints.guard_evaluation import UnknownFunctionError
from ioaware.symints.guards import Condition, needed

MOST_RUNS, RUNS_A_PATH = 16, 4
"""Points of one evaluation that the host function is run for, which takes some 50 ms each: of all, and of those where torch
decides alike."""

Values = Mapping[str, Number]


@dataclass(frozen=True)
class Validity:
    """What one capture took for granted of its symbols, whose given values are `given`."""

    target: str
    given: Mapping[str, int]
    conditions: tuple[Condition, ...]
    """What has to be so."""
    doubts: tuple[Condition, ...]
    """What torch decides by itself, where another outcome mostly changes nothing: whether a size is 1. The function is run
    to see."""
    reads_data: bool
    """Whether host code read data, which at other values may be other data."""
    same_at: Callable[[Mapping[str, int]], bool]
    """Whether the host function, run at one point, launches what the formulas are of."""

    def check(self, values: Values) -> None:
        """Raises `UsageError` naming the condition that fails, and where. `values` has every symbol, as ints or as arrays."""
        for name, value in values.items():
            if not (np.issubdtype(np.asarray(value).dtype, np.integer) and np.all(np.asarray(value) >= 1)):
                raise UsageError(f"{name} must be a positive integer, not {value}", "Formulas are of sizes.")
        shape = np.broadcast_shapes(*map(np.shape, values.values()))
        path = np.zeros(shape, object)  # which of the doubts there are at a point, one bit each
        for at, condition in enumerate((*self.doubts, *self.conditions)):
            met = self._met(condition, values)
            if met is None or at < len(self.doubts):
                path = path + (np.asarray(1) if met is None else ~np.asarray(met)).astype(object) * 2**at
            elif not np.all(met):
                raise self._refusal(str(condition), condition.reason, _points(values, ~np.asarray(met), 1)[0], condition.names)
        for point in self._to_be_run(values, np.asarray(path, object)):
            if point != self.given and not self.same_at(point):
                raise self._refusal("other launches", "the host function was run to see", point, point.keys())

    def _to_be_run(self, values: Values, path: NDArray[np.object_]) -> list[dict[str, int]]:
        """Where data are read, every point. Else some of the points of each path that torch may take of its own."""
        if self.reads_data:
            if path.size > MOST_RUNS:
                raise UsageError(
                    f"{self.target} reads data, so that it has to be run at each of the points",
                    f"Evaluate {MOST_RUNS} at a time.",
                )
            return _points(values, np.full(path.shape, fill_value=True), MOST_RUNS)
        others = set(path.flat) - {0}
        if len(others) > MOST_RUNS // RUNS_A_PATH:
            raise UsageError(
                f"{self.target} takes {len(others)} ways at these points, sizes of 1 among them", "Evaluate fewer."
            )
        return [point for one in others for point in _points(values, path == one, RUNS_A_PATH)]

    @staticmethod
    def _met(condition: Condition, values: Values) -> Any:
        """None where nobody can tell without running the host function."""
        try:
            return condition.met(values)
        except (UnknownFunctionError, ZeroDivisionError, OverflowError):
            return None

    def _refusal(self, what: str, why: str, point: Mapping[str, int], names: Iterable[str]) -> UsageError:
        where = ", ".join(f"{name}={point[name]}" for name in sorted(names) if name in point)
        return UsageError(
            f"the formulas of {self.target} do not hold at {where}: they are for {what} ({why})", f"Derive again at {where}."
        )


def validity(
    target: str,
    given: Mapping[str, int],
    conditions: Sequence[Condition],
    unsaid: Iterable[Condition],
    *,
    reads_data: bool,
    same_at: Callable[[Mapping[str, int]], bool],
) -> Validity:
    """Sorted: a condition that fails at the given values, where the launches were compared, leaves a doubt and no more."""
    kept: list[Condition] = []
    doubts = [*unsaid]
    for condition in needed(conditions):
        met = Validity._met(condition, given)  # pyright: ignore[reportPrivateUsage]
        (kept if met in (True, None) else doubts).append(condition)
    return Validity(target, given, tuple(kept), tuple(doubts), reads_data, same_at)


def _points(values: Values, where: NDArray[np.bool_], most: int) -> list[dict[str, int]]:
    """At most so many of the points at which `where` is true, the first and the last among them."""
    shape = np.broadcast_shapes(where.shape, *map(np.shape, values.values()))
    places = np.flatnonzero(np.broadcast_to(where, shape))
    steps = min(most, len(places))
    chosen = {int(places[(len(places) - 1) * at // max(steps - 1, 1)]) for at in range(steps)}
    columns = {name: np.broadcast_to(np.asarray(value), shape).reshape(-1) for name, value in values.items()}
    return [{name: int(column[at]) for name, column in columns.items()} for at in sorted(chosen)]
