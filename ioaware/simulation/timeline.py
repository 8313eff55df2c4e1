"""When in the course of a program its accesses happen: a clock that counts the bytes that the program asks for.

The accesses of a kernel and the loops around them are a tree. Loops that hold nothing but accesses stay as they are, low, high
and bytes an iteration, for one program and one iteration of the loops outside; loops around others are gone through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioaware.analysis.ir.accesses.access_log import Condition, Loop, Scope, Touch
from ioaware.analysis.ir.algebra.poly import ONE, Poly
from ioaware.analysis.ir.sectors.lanes import numeric

Numbers = NDArray[np.int64]
Times = NDArray[np.float64]
Columns: TypeAlias = Mapping[str, Numbers]
MAX_ROWS = 1 << 23


@dataclass
class Branch:
    """A loop or condition with what is inside; the whole program has no scope."""

    scope: Scope | None
    items: list[Branch | int] = field(default_factory=list["Branch | int"])

    @property
    def leaf(self) -> bool:
        """Whether it is a loop with no loop inside."""
        return isinstance(self.scope, Loop) and not self.loops

    @property
    def loops(self) -> bool:
        """Whether a loop is inside."""
        return any(isinstance(item, Branch) and (isinstance(item.scope, Loop) or item.loops) for item in self.items)


def tree(touches: Sequence[Touch]) -> Branch:
    """Put the touches, in program order, under their common loops and conditions."""
    root = Branch(None)
    for number, touch in enumerate(touches):
        branch = root
        for scope in touch.scopes:
            if isinstance(scope, Condition) and scope.truth == ONE:
                continue
            last = branch.items[-1] if branch.items else None
            if not (isinstance(last, Branch) and last.scope == scope):
                last = Branch(scope)
                branch.items.append(last)
            branch = last
        branch.items.append(number)
    return root


@dataclass(frozen=True, slots=True)
class Executions:
    """Executions of one touch: `columns` of the indices around it, when it starts; a leaf loop is not gone through.

    `program` says whose they are. Where `loop` is set the touch happens for each index from `low` up to `high`, exclusive, of
    it, `step` units of time apart. `conditions` are of the loop's own body.
    """

    touch: int
    program: Numbers
    columns: Columns
    time: Times
    loop: Loop | None = None
    low: Numbers | None = None
    high: Numbers | None = None
    step: float = 0.0
    conditions: tuple[Poly, ...] = ()


class Timeline:
    """The accesses of a launch in the time of their programs, which begins at 0."""

    def __init__(self, touches: Sequence[Touch], indices: Columns, *, concurrent: bool = False) -> None:
        self._sizes = [prod(touch.shape) * touch.element_bytes for touch in touches]
        self._found: list[Executions] = []
        count = next(iter(indices.values())).size
        root = tree(touches)
        env = {**indices, "": np.arange(count, dtype=np.int64)}
        if concurrent and len(root.items) > 1:
            self.durations = self._side_by_side(root, env, count)
        else:
            self.durations = self._walk(root.items, env, np.zeros(count))

    @property
    def executions(self) -> list[Executions]:
        """All of them, touch by touch in program order."""
        return self._found

    def _side_by_side(self, root: Branch, env: Columns, count: int) -> Times:
        """Warps that do different things run at once: each loop of the top level takes the time of all together."""
        each = [self._cost([item], env) for item in root.items]
        total = np.sum(each, axis=0)
        for item, cost in zip(root.items, each, strict=True):
            before = len(self._found)
            self._walk([item], env, np.zeros(count))
            stretch = total / np.maximum(cost, 1.0)
            for at in range(before, len(self._found)):
                one = self._found[at]
                factor = stretch[one.program]
                step = one.step * float(np.median(factor)) if factor.size else one.step
                self._found[at] = Executions(
                    one.touch, one.program, one.columns, one.time * factor, one.loop, one.low, one.high, step, one.conditions
                )
        return total

    def _cost(self, items: Sequence[Branch | int], env: Columns) -> Times:
        """Return the time that these take, for each row of the columns."""
        total = np.zeros(env[""].size)
        for item in items:
            if isinstance(item, int):
                total += self._sizes[item]
            elif isinstance(item.scope, Loop):
                low, high = self._bounds(item.scope, env)
                if item.leaf:
                    total += np.maximum(high - low, 0) * self._iteration(item)
                else:
                    inner, parent = self._expanded(item.scope, env, low, high)
                    total += np.bincount(parent, self._cost(item.items, inner), env[""].size)
            else:
                met = self._met(item, env)
                total[met] += self._cost(item.items, _rows(env, met))
        return total

    def _walk(self, items: Sequence[Branch | int], env: Columns, time: Times) -> Times:
        """Record the executions; return when each row ends."""
        time = time.copy()
        for item in items:
            if isinstance(item, int):
                self._found.append(Executions(item, env[""], env, time.copy()))
                time += self._sizes[item]
            elif isinstance(item.scope, Loop):
                low, high = self._bounds(item.scope, env)
                if item.leaf:
                    step = self._iteration(item)
                    self._leaf(item, item.scope, env, time, low, high, step, ())
                    time += np.maximum(high - low, 0) * step
                else:
                    inner, parent = self._expanded(item.scope, env, low, high)
                    cost = self._cost(item.items, inner)
                    before = np.cumsum(cost) - cost
                    first = np.searchsorted(parent, np.arange(env[""].size))
                    offset = before[np.minimum(first, before.size - 1)] if before.size else np.zeros(env[""].size)
                    self._walk(item.items, inner, time[parent] + before - offset[parent])
                    time += np.bincount(parent, cost, env[""].size)
            else:
                met = self._met(item, env)
                time[met] = self._walk(item.items, _rows(env, met), time[met])
        return time

    def _leaf(
        self,
        branch: Branch,
        loop: Loop,
        env: Columns,
        time: Times,
        low: Numbers,
        high: Numbers,
        step: float,
        conditions: tuple[Poly, ...],
    ) -> None:
        """Record the touches of a loop without loops inside."""
        within = 0.0
        for item in branch.items:
            if isinstance(item, int):
                self._found.append(Executions(item, env[""], env, time + within, loop, low, high, step, conditions))
                within += self._sizes[item] if not conditions else 0.0
            else:
                truth = item.scope.truth if isinstance(item.scope, Condition) else ONE
                self._leaf(item, loop, env, time + within, low, high, step, (*conditions, truth))

    def _iteration(self, branch: Branch) -> float:
        """Return the time of one iteration. What is under a condition counts only where nothing else is there."""
        always = sum(self._sizes[item] for item in branch.items if isinstance(item, int))
        return float(always or sum(self._iteration(item) for item in branch.items if isinstance(item, Branch)))

    def _bounds(self, loop: Loop, env: Columns) -> tuple[Numbers, Numbers]:
        count = env[""].size
        low, high = (np.broadcast_to(numeric(bound, env), (count,)).astype(np.int64) for bound in (loop.low, loop.high))
        return low, high

    def _expanded(self, loop: Loop, env: Columns, low: Numbers, high: Numbers) -> tuple[Columns, Numbers]:
        times = np.maximum(high - low, 0)
        total = int(times.sum())
        if total > MAX_ROWS:
            raise ValueError(f"{total} iterations of a loop around others are too many to go through")
        parent = np.repeat(np.arange(times.size), times)
        inner = {key: column[parent] for key, column in env.items()}
        inner[loop.index.key] = low[parent] + np.arange(total) - (np.cumsum(times) - times)[parent]
        return inner, parent

    def _met(self, branch: Branch, env: Columns) -> NDArray[np.intp]:
        truth = branch.scope.truth if isinstance(branch.scope, Condition) else ONE
        return np.flatnonzero(np.broadcast_to(numeric(truth, env), env[""].shape))


def _rows(env: Columns, rows: NDArray[np.intp]) -> Columns:
    return {key: column[rows] for key, column in env.items()}
