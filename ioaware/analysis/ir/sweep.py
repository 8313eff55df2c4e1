"""Persistent kernels: programs that together visit every tile once are one loop over the tiles, whoever visits which.

`for t in range(pid, tiles, P)` with P programs: pid + P i takes every value from 0 up to `tiles` once. A kernel that counts its
own tiles, `for i in range(cdiv(tiles - pid, P))`, says the same; one that works on several in a row counts i in two digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ioaware.analysis.ir.build import decided, floor_div, substitute
from ioaware.analysis.ir.counts import Programs
from ioaware.analysis.ir.poly import ONE, ZERO, Extreme, Poly, Symbol, poly
from ioaware.analysis.ir.record import Condition, Loop, Scope
from ioaware.analysis.ir.reindex import floors


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
            scope = Loop(_first_of_its_name(scope, values, scopes, programs), scope.low, scope.high, scope.source)
            plain = _renamed(values, scopes, at, scope, programs)
            return next((found for way in _ways(plain, at, scope) if (found := _swept(way, at)) is not None), plain)
    return Placed(tuple(values), tuple(scopes), programs)


def _first_of_its_name(loop: Loop, values: Sequence[Poly], scopes: Sequence[Scope], programs: Programs) -> Symbol:
    """The index as its source calls it, where nothing else here does: loops over the same tiles are then the same loop."""
    name = re.sub(r"_\d+$", "", loop.index.name)
    every = [*values, *programs.sizes, *(e for scope in scopes for e in _expressions(scope))]
    free = frozenset[str]().union(*(e.free for e in every))
    taken = {key.partition("[")[0] for key in free} | {s.index.name for s in scopes if isinstance(s, Loop)}
    return loop.index if name in taken else Symbol(name, loop.index.lower, loop.index.upper)


def _renamed(values: Sequence[Poly], scopes: Sequence[Scope], at: int, loop: Loop, programs: Programs) -> Placed:
    before = scopes[at]
    if not isinstance(before, Loop) or before.index == loop.index:
        return Placed(tuple(values), tuple(scopes), programs)
    rewrite = Rewriting({before.index.key: poly(loop.index)})
    inner = [rewrite.scope(scope) for scope in scopes[at + 1 :]]
    return Placed(tuple(map(rewrite, values)), (*scopes[:at], loop, *inner), programs)


def _ways(plain: Placed, at: int, loop: Loop) -> Iterator[Placed]:
    """The loop as it stands; and for every D that it is used in steps of, as two loops, one of D iterations inside."""
    yield plain
    inner = plain.scopes[at + 1 :]
    used = [*plain.values, *(e for scope in inner for e in _expressions(scope))]
    for divisor in dict.fromkeys(f.denominator for e in used for f in floors(e) if f.numerator == poly(loop.index)):
        times = floor_div(loop.high, divisor)
        if loop.low.terms or loop.source or divisor.constant is None or times * divisor != loop.high:
            continue
        tens = Symbol(f"{loop.index.name}_quotient", ZERO, times - 1)
        ones = Symbol(f"{loop.index.name}_rest", ZERO, divisor - 1)
        rewrite = Rewriting({loop.index.key: divisor * poly(tens) + poly(ones)})
        inside = [rewrite.scope(scope) for scope in inner]
        loops = (Loop(tens, ZERO, times), Loop(ones, ZERO, divisor))
        moved = tuple(rewrite(value) for value in plain.values)
        yield Placed(moved, (*plain.scopes[:at], *loops, *inside), plain.programs)


def _dealt(loop: Loop, programs: Programs) -> tuple[int, Poly, Poly] | None:
    """The axis whose programs share the tiles, how many tiles there are, and how many programs."""
    if loop.source is not None:
        start, stop, step = loop.source
        axes = [axis for axis, index in enumerate(programs.indices) if start == poly(index)]
        return (axes[0], stop, step) if axes and _covers(programs.sizes[axes[0]], stop, step) else None
    for axis, (pid, size) in enumerate(zip(programs.indices, programs.sizes, strict=True)):
        for floor in floors(loop.high) if not loop.low.terms else ():
            more = loop.high - poly(floor)
            stop = floor.numerator + poly(pid) + 1 + (more - 1) * size  # i < floor(n / P) + c says P i < n + 1 + (c - 1) P
            if floor.denominator == size and pid.key not in more.free | stop.free | size.free:
                return axis, stop, size
    return None


def _swept(plain: Placed, at: int) -> Placed | None:
    values, scopes, programs = plain.values, plain.scopes, plain.programs
    loop = scopes[at]
    dealt = _dealt(loop, programs) if isinstance(loop, Loop) else None
    if dealt is None or not isinstance(loop, Loop):
        return None
    axis, stop, step = dealt
    pid = programs.indices[axis]
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
    sizes = [ONE if other == axis else size for other, size in enumerate(programs.sizes)]
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
