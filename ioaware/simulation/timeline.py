"""Give each access of a program a time.

It is measured in bytes requested by the program so far. Stored bytes may take less time than bytes read.

The accesses of a kernel and the loops around them form a tree. Innermost loops are kept in closed form, as low, high and bytes
per iteration. Outer loops are enumerated.
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
class ScopeNode:
    """Loop or condition with its body; the root has no scope."""

    scope: Scope | None
    items: list[ScopeNode | int] = field(default_factory=list["ScopeNode | int"])

    @property
    def leaf(self) -> bool:
        """Whether it is a loop without loops inside."""
        return isinstance(self.scope, Loop) and not self.loops

    @property
    def loops(self) -> bool:
        """Whether a loop is inside."""
        return any(isinstance(item, ScopeNode) and (isinstance(item.scope, Loop) or item.loops) for item in self.items)


def tree(touches: Sequence[Touch]) -> ScopeNode:
    """Build the tree of loops and conditions around the accesses, in program order."""
    root = ScopeNode(None)
    for number, touch in enumerate(touches):
        branch = root
        for scope in touch.scopes:
            if isinstance(scope, Condition) and scope.truth == ONE:
                continue
            last = branch.items[-1] if branch.items else None
            if not (isinstance(last, ScopeNode) and last.scope == scope):
                last = ScopeNode(scope)
                branch.items.append(last)
            branch = last
        branch.items.append(number)
    return root


@dataclass(frozen=True, slots=True)
class Executions:
    """Executions of one access: the indices around it as `columns`, and start times.

    An innermost loop is not enumerated.

    `program` is the program of each row. Where `loop` is set, the access runs for each index from `low` up to `high`,
    exclusive, `step` time units apart. `conditions` are those inside the loop's body.
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
    """Accesses of a launch with times relative to the start of their programs."""

    def __init__(
        self, touches: Sequence[Touch], indices: Columns, *, concurrent: bool = False, time_of_stores: float = 1.0
    ) -> None:
        share = {"write": time_of_stores}
        self._sizes = [prod(touch.shape) * touch.element_bytes * share.get(touch.kind, 1.0) for touch in touches]
        self._executions: list[Executions] = []
        count = next(iter(indices.values())).size
        root = tree(touches)
        env = {**indices, "": np.arange(count, dtype=np.int64)}
        if concurrent and len(root.items) > 1:
            self.durations = self._concurrent_warps(root, env, count)
        else:
            self.durations = self._walk(root.items, env, np.zeros(count))

    @property
    def executions(self) -> list[Executions]:
        """All executions, access by access in program order."""
        return self._executions

    def _concurrent_warps(self, root: ScopeNode, env: Columns, count: int) -> Times:
        """Schedule warp-specialised loops concurrently.

        Each top-level loop takes the total time of all.
        """
        each = [self._cost([item], env) for item in root.items]
        total = np.sum(each, axis=0)
        for item, cost in zip(root.items, each, strict=True):
            before = len(self._executions)
            self._walk([item], env, np.zeros(count))
            stretch = total / np.maximum(cost, 1.0)
            for at in range(before, len(self._executions)):
                one = self._executions[at]
                factor = stretch[one.program]
                step = one.step * float(np.median(factor)) if factor.size else one.step
                self._executions[at] = Executions(
                    one.touch, one.program, one.columns, one.time * factor, one.loop, one.low, one.high, step, one.conditions
                )
        return total

    def _cost(self, items: Sequence[ScopeNode | int], env: Columns) -> Times:
        """Return the time that the items take, for each row of the columns."""
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
                met = self._rows_where(item, env)
                total[met] += self._cost(item.items, _rows(env, met))
        return total

    def _walk(self, items: Sequence[ScopeNode | int], env: Columns, time: Times) -> Times:
        """Record the executions; return the end time of each row."""
        time = time.copy()
        for item in items:
            if isinstance(item, int):
                self._executions.append(Executions(item, env[""], env, time.copy()))
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
                met = self._rows_where(item, env)
                time[met] = self._walk(item.items, _rows(env, met), time[met])
        return time

    def _leaf(
        self,
        branch: ScopeNode,
        loop: Loop,
        env: Columns,
        time: Times,
        low: Numbers,
        high: Numbers,
        step: float,
        conditions: tuple[Poly, ...],
    ) -> None:
        """Record the accesses of a loop without inner loops."""
        within = 0.0
        for item in branch.items:
            if isinstance(item, int):
                self._executions.append(Executions(item, env[""], env, time + within, loop, low, high, step, conditions))
                within += self._sizes[item] if not conditions else 0.0
            else:
                truth = item.scope.truth if isinstance(item.scope, Condition) else ONE
                self._leaf(item, loop, env, time + within, low, high, step, (*conditions, truth))

    def _iteration(self, branch: ScopeNode) -> float:
        """Return the time of one iteration.

        Conditional accesses count only where there are no others.
        """
        always = sum(self._sizes[item] for item in branch.items if isinstance(item, int))
        return float(always or sum(self._iteration(item) for item in branch.items if isinstance(item, ScopeNode)))

    def _bounds(self, loop: Loop, env: Columns) -> tuple[Numbers, Numbers]:
        count = env[""].size
        low, high = (np.broadcast_to(_known(bound, env), (count,)).astype(np.int64) for bound in (loop.low, loop.high))
        return low, high

    def _expanded(self, loop: Loop, env: Columns, low: Numbers, high: Numbers) -> tuple[Columns, Numbers]:
        times = np.maximum(high - low, 0)
        total = int(times.sum())
        if total > MAX_ROWS:
            raise ValueError(f"{total} iterations of an outer loop are too many to enumerate")
        parent = np.repeat(np.arange(times.size), times)
        inner = {key: column[parent] for key, column in env.items()}
        inner[loop.index.key] = low[parent] + np.arange(total) - (np.cumsum(times) - times)[parent]
        return inner, parent

    def _rows_where(self, branch: ScopeNode, env: Columns) -> NDArray[np.intp]:
        truth = branch.scope.truth if isinstance(branch.scope, Condition) else ONE
        return np.flatnonzero(np.broadcast_to(_known(truth, env), env[""].shape))


def _known(value: Poly, env: Columns) -> Numbers:
    """Return a bound or condition at each row.

    Raises `ValueError` where data decide it.
    """
    try:
        return numeric(value, env)
    except KeyError as unknown:
        name = str(unknown.args[0]).partition("[")[0]
        raise ValueError(f"data decide {name}: how often a loop or a branch of it runs") from unknown


def _rows(env: Columns, rows: NDArray[np.intp]) -> Columns:
    return {key: column[rows] for key, column in env.items()}
