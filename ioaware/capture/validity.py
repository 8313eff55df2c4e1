"""Check at which other parameter values the formulas of a capture hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioaware.analysis.formulas.exact_ratio import Number
from ioaware.errors import UsageError
from ioaware.symints.guard_evaluation import UnknownFunctionError
from ioaware.symints.guards import Condition, without_redundant

MAX_RUNS, RUNS_PER_PATH = 16, 4
"""Most points of one evaluation at which the host function is run.

There is one limit in total and one per outcome of torch's own guards.
"""

Values = Mapping[str, Number]


@dataclass(frozen=True)
class Validity:
    """Conditions of one capture on its symbols, which have the values `given`."""

    target: str
    given: Mapping[str, int]
    conditions: tuple[Condition, ...]
    """Conditions that must hold."""
    implicit: tuple[Condition, ...]
    """torch's own guards, such as whether a size is 1.

    Another outcome rarely matters: the function is run to check.
    """
    limits: tuple[Condition, ...]
    """Conditions of the GPU, such as the largest grid.

    They may fail at the given values.
    """
    reads_data: bool
    """Whether host code read data, which may differ at other values."""
    same_at: Callable[[Mapping[str, int]], bool]
    """Run the host function at one point.

    Return whether it makes the captured launches.
    """

    def check(self, values: Values) -> None:
        """Raise `UsageError` naming a condition that fails, and where.

        `values` has every symbol, as ints or as arrays.
        """
        for name, value in values.items():
            if not (np.issubdtype(np.asarray(value).dtype, np.integer) and np.all(np.asarray(value) >= 1)):
                raise UsageError(f"{name} must be a positive integer, not {value}", "Formulas are of sizes.")
        shape = np.broadcast_shapes(*map(np.shape, values.values()))
        path = np.zeros(shape, object)  # one bit for each of torch's guards that differs at a point
        unknown = np.full(shape, self.reads_data)
        for at, condition in enumerate((*self.implicit, *self.conditions, *self.limits)):
            met = self._met(condition, values)
            if met is None and condition.reason:
                unknown = unknown | self._differs(condition, values)
            elif met is None or at < len(self.implicit):
                path = path + (np.asarray(1) if met is None else ~np.asarray(met)).astype(object) * 2**at
            elif not np.all(met):
                raise self._refusal(str(condition), condition.reason, _points(values, ~np.asarray(met), 1)[0], condition.names)
        for point in self._points_to_run(values, np.asarray(path, object), unknown):
            if point != self.given and not self.same_at(point):
                raise self._refusal("other launches", "the host function was run to see", point, point.keys())

    def _differs(self, condition: Condition, values: Values) -> NDArray[np.bool_]:
        """Return where parameters of the condition have other values than the given ones."""
        differs = [np.asarray(values[name]) != self.given[name] for name in condition.names & values.keys()]
        return np.asarray(reduce(np.logical_or, differs, np.asarray(False)))

    def _points_to_run(self, values: Values, path: NDArray[np.object_], unknown: NDArray[np.bool_]) -> list[dict[str, int]]:
        """Return every point where only a run decides, and some others.

        They are some points of each path of torch's guards.
        """
        if np.count_nonzero(unknown) > MAX_RUNS:
            raise UsageError(
                f"{self.target} reads data, looks up a table or rounds floats, so it has to be run at each point",
                f"Evaluate {MAX_RUNS} at a time.",
            )
        others = set(path[~unknown].flat) - {0}
        if len(others) > MAX_RUNS // RUNS_PER_PATH:
            raise UsageError(
                f"torch's guards differ in {len(others)} ways at these points of {self.target}, sizes of 1 among them",
                "Evaluate fewer.",
            )
        some = [point for one in others for point in _points(values, (path == one) & ~unknown, RUNS_PER_PATH)]
        return _points(values, unknown, MAX_RUNS) + some

    @staticmethod
    def _met(condition: Condition, values: Values) -> Any:
        """Evaluate a condition; None where only a run of the host function decides."""
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
    implicit: Iterable[Condition],
    *,
    limits: Iterable[Condition],
    reads_data: bool,
    same_at: Callable[[Mapping[str, int]], bool],
) -> Validity:
    """Return the conditions of a capture, sorted by whether they must hold.

    A condition that fails at the given values, where the launches agree, need not hold: the function is run to check.
    """
    required: list[Condition] = []
    optional = [*implicit]
    for condition in without_redundant(conditions):
        met = Validity._met(condition, given)  # pyright: ignore[reportPrivateUsage]
        (required if met in (True, None) else optional).append(condition)
    return Validity(target, given, tuple(required), tuple(optional), tuple(dict.fromkeys(limits)), reads_data, same_at)


def _points(values: Values, where: NDArray[np.bool_], most: int) -> list[dict[str, int]]:
    """Return at most `most` of the points at which `where` is true.

    The first and last are included.
    """
    shape = np.broadcast_shapes(where.shape, *map(np.shape, values.values()))
    places = np.flatnonzero(np.broadcast_to(where, shape))
    steps = min(most, len(places))
    chosen = {int(places[(len(places) - 1) * at // max(steps - 1, 1)]) for at in range(steps)}
    columns = {name: np.broadcast_to(np.asarray(value), shape).reshape(-1) for name, value in values.items()}
    return [{name: int(column[at]) for name, column in columns.items()} for at in sorted(chosen)]
