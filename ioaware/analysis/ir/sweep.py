"""Persistent kernels: programs that together visit every tile once are one loop over the tiles, whoever visits which.

`for t in range(pid, tiles, P)` with P programs: pid + P i takes every value from 0 up to `tiles` once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ioaware.analysis.ir.build import decided, substitute
from ioaware.analysis.ir.counts import Programs
from ioaware.analysis.ir.poly import ONE, ZERO, Extreme, Poly, Symbol, poly
from ioaware.analysis.ir.record import Condition, Loop, Scope


class Rewriting:
    """Symbols replaced everywhere: in expressions, and in the bounds that the indices of loops are known by."""

    def __init__(self, by: Mapping[str, Poly]) -> None:
        self._by = dict(by)

    def __call__(self, value: Poly) -> Poly:
        return decided(substitute(value, self._by))

    def index(self, index: Symbol) -> Symbol:
        """The same index with its bounds rewritten; from now on the one that takes its place."""
        low, high = (None if bound is None else self(bound) for bound in (index.lower, index.upper))
        again = Symbol(index.name, low, high)
        self._by[index.key] = poly(again)
        return again

    def scope(self, scope: Scope) -> Scope:
        """A loop or condition rewritten, from the outside in."""
        if isinstance(scope, Condition):
            return Condition(self(scope.truth))
        low, high = self(scope.low), self(scope.high)
        return Loop(self.index(scope.index), low, high)


@dataclass(frozen=True, slots=True)
class Placed:
    """Expressions with the loops, conditions and programs that they are to be summed over."""

    values: tuple[Poly, ...]
    scopes: tuple[Scope, ...]
    programs: Programs


def placed(values: Sequence[Poly], scopes: Sequence[Scope], programs: Programs) -> Placed:
    """With a persistent loop and its axis of the grid made one loop, where there is one."""
    for at, scope in enumerate(scopes):
        if isinstance(scope, Loop):
            found = _swept(values, scopes, at, scope, programs)
            return found if found is not None else Placed(tuple(values), tuple(scopes), programs)
    return Placed(tuple(values), tuple(scopes), programs)


def _swept(values: Sequence[Poly], scopes: Sequence[Scope], at: int, loop: Loop, programs: Programs) -> Placed | None:
    if loop.source is None:
        return None
    start, stop, step = loop.source
    axes = [axis for axis, index in enumerate(programs.indices) if start == poly(index)]
    if not axes or not _covers(programs.sizes[axes[0]], stop, step):
        return None
    pid = programs.indices[axes[0]]
    tile = Symbol(loop.index.name, ZERO, stop - 1)
    if pid.key in stop.free | step.free:
        return None
    rewrite = Rewriting({pid.key: poly(tile) - step * poly(loop.index)})
    inner = [rewrite.scope(scope) for scope in scopes[at + 1 :]]
    moved = [rewrite(value) for value in values]
    outer = list(scopes[:at])
    everything = [*moved, *(e for scope in inner for e in _expressions(scope))]
    mixed = any({pid.key, loop.index.key} & value.free for value in everything)
    if mixed or any(pid.key in e.free for scope in outer for e in _expressions(scope)):
        return None
    sizes = [ONE if axis == axes[0] else size for axis, size in enumerate(programs.sizes)]
    return Placed(
        tuple(moved), (*outer, Loop(tile, ZERO, stop), *inner), Programs(programs.indices, (sizes[0], sizes[1], sizes[2]))
    )


def _covers(programs: Poly, stop: Poly, step: Poly) -> bool:
    """Whether there are as many programs as the step is long, or fewer because there is less to do."""
    if programs == step:
        return True
    atom = programs.atom
    return isinstance(atom, Extreme) and atom.least and set(atom.args) == {stop, step}


def _expressions(scope: Scope) -> list[Poly]:
    return [scope.truth] if isinstance(scope, Condition) else [scope.low, scope.high]
