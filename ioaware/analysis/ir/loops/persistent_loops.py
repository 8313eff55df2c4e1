"""Merge the tile loop of a persistent kernel and its grid axis into one loop.

The loop runs over all tiles.

`tile_schedules` determines how programs share tiles. A kernel that takes several tiles in a row has a two-digit loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ioaware.analysis.ir.accesses.access_log import Loop, Scope
from ioaware.analysis.ir.algebra.constructors import common_coefficient, floor_div
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Poly, Symbol, poly
from ioaware.analysis.ir.loops.access_totals import Programs
from ioaware.analysis.ir.loops.substitution import Placed, Rewriting, all_expressions
from ioaware.analysis.ir.loops.tile_schedules import merge_tile_loop
from ioaware.analysis.ir.sums.reindex import floors


def merge_persistent_loop(values: Sequence[Poly], scopes: Sequence[Scope], programs: Programs) -> Placed:
    """Merge a persistent loop with its grid axis, where there is one."""
    for at, scope in enumerate(scopes):
        if isinstance(scope, Loop):
            scope = Loop(_first_of_its_name(scope, values, scopes, programs), scope.low, scope.high, scope.source)
            plain = _renamed(values, scopes, at, scope, programs)
            return next((found for way in _ways(plain, at, scope) if (found := merge_tile_loop(way, at)) is not None), plain)
    return Placed(tuple(values), tuple(scopes), programs)


def _first_of_its_name(loop: Loop, values: Sequence[Poly], scopes: Sequence[Scope], programs: Programs) -> Symbol:
    """Give the index its source name where that is free.

    Loops over the same tiles then compare equal.
    """
    name = re.sub(r"_\d+$", "", loop.index.name)
    free = frozenset[str]().union(*(e.free for e in (*all_expressions(values, scopes), *programs.sizes)))
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
    """Yield the loop as it is, then split in two for every D.

    These are each D that it runs or is used in steps of.
    """
    yield plain
    inner = plain.scopes[at + 1 :]
    asked = [floor for value in all_expressions(plain.values, inner) for floor in floors(value)]
    steps = [poly(common_coefficient([loop.high])), *(f.denominator for f in asked if f.numerator == poly(loop.index))]
    for divisor in dict.fromkeys(step for step in steps if step != ONE):
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
