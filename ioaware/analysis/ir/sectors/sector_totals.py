"""Sum the sectors of an access over the launch.

The sum is closed for aligned lengths, and a sum for others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm

from sympy import Expr

from ioaware.analysis.ir.accesses.access_log import Condition, Loop, Scope, Touch
from ioaware.analysis.ir.algebra.constructors import substitute
from ioaware.analysis.ir.algebra.poly import ZERO, Poly, Sum, Symbol, poly, total
from ioaware.analysis.ir.algebra.predicates import choice, resolve_tests
from ioaware.analysis.ir.algebra.simplify import simplify
from ioaware.analysis.ir.algebra.sympy_bridge import only_where, to_sympy
from ioaware.analysis.ir.loops.access_totals import Counted, Programs, repeat_in_scopes, total_count
from ioaware.analysis.ir.loops.substitution import Placed
from ioaware.analysis.ir.sectors.alignment import alignment, has_unknown, multiples, whole_tiles
from ioaware.analysis.ir.sectors.per_access import Sectors, sectors_of
from ioaware.analysis.ir.sums.closed_forms import extent
from ioaware.analysis.ir.sums.reindex import floors


@dataclass(frozen=True, slots=True)
class SectorTotal:
    """`aligned` is valid where the lengths `needed` are these multiples.

    `anyway` is valid always (None: unknown).
    """

    anyway: Poly | None
    aligned: Poly
    needed: Mapping[Symbol, int]
    caveats: tuple[str, ...]
    each: Counted | None = None
    """Summand of `aligned`, with each needed length as a multiple of another."""


def combined_sectors(parts: Sequence[SectorTotal | None], unit: int = 1) -> Expr | None:
    """Return the sectors of several accesses times `unit`; None where one is unknown.

    One divisibility condition covers all; where it fails each access has its own.
    """
    known = [part for part in parts if part is not None]
    if len(known) != len(parts):
        return None
    needed: dict[Symbol, int] = {}
    for part in known:
        needed = _joined(needed, part.needed)
    rest = None if any(part.anyway is None for part in known) else _unaligned(known, needed)
    return _formula(needed, _aligned(known) * unit, None if rest is None else rest * unit)


def _unaligned(parts: Sequence[SectorTotal], needed: Mapping[Symbol, int]) -> Poly:
    """Return the sum where not all lengths are multiples.

    An access that needs fewer keeps its own condition.
    """
    other = [part for part in parts if part.needed and part.anyway is not None]
    choices = (
        part.anyway if part.needed == needed else _choice(part.needed, part.aligned, part.anyway)
        for part in other
        if part.anyway is not None
    )
    return total((_aligned([part for part in parts if not part.needed]), *choices))


def _aligned(parts: Sequence[SectorTotal]) -> Poly:
    """Return the sum where lengths are multiples.

    Accesses in the same loops are added before they are summed.
    """
    alike: dict[frozenset[tuple[Symbol, int]], list[Counted]] = {}
    for part in parts:
        if part.each is not None:
            alike.setdefault(frozenset(part.needed.items()), []).append(part.each)
    together = (substitute(total_count(each), multiples(dict(needed))[1]) for needed, each in alike.items())
    return simplify(total((*together, *(part.aligned for part in parts if part.each is None))))


def _choice(needed: Mapping[Symbol, int], aligned: Poly, anyway: Poly) -> Poly:
    return choice(multiples(needed)[2], aligned, anyway)


def _formula(needed: Mapping[Symbol, int], aligned: Poly, anyway: Poly | None) -> Expr:
    if anyway is None:
        return only_where(multiples(needed)[2], aligned)
    return to_sympy(_choice(needed, aligned, anyway))


def sector_total(touch: Touch, scopes: Sequence[Scope], programs: Programs) -> SectorTotal | None:
    """Return the sectors of an access.

    None where its shape has no rule or its addresses depend on data.
    """
    plain = sectors_of(touch)
    if plain is not None and has_unknown(plain.count):
        return None
    rows = alignment(touch.target.offset)
    if plain is not None and not rows and not plain.caveats:
        closed = programs.sum(repeat_in_scopes(plain.count, scopes))
        return SectorTotal(closed, closed, {}, (), (plain.count, tuple(scopes), programs))
    anyway = None if plain is None else _summed(plain.count, scopes, programs)
    fallback = None if plain is None or anyway is None else SectorTotal(anyway, anyway, {}, plain.caveats)
    for needed in (rows, _joined(rows, whole_tiles(touch.target.offset, touch.mask))):
        forth, back, _ = multiples(needed)
        spread = Placed((touch.mask, touch.target.offset), tuple(scopes), programs).rewritten(forth)
        target = replace(touch.target, offset=spread.values[1])
        alike = sectors_of(replace(touch, mask=spread.values[0], target=target))
        if alike is None or has_unknown(alike.count):
            continue
        each = (alike.count, spread.scopes, spread.programs)
        found = SectorTotal(anyway, substitute(total_count([each]), back), needed, _unless(plain, alike, needed), each)
        if not alike.caveats:
            return found
        fallback = found if fallback is None or needed == rows else fallback
    return fallback


def _unless(plain: Sectors | None, alike: Sectors, needed: Mapping[Symbol, int]) -> tuple[str, ...]:
    """Return the caveats of a bound, and the lengths for which it is exact."""
    lengths = " and ".join(f"{symbol.name} % {multiple} == 0" for symbol, multiple in needed.items())
    if plain is None:
        return (f"known only where {lengths}", *alike.caveats)
    return tuple(caveat if alike.caveats else f"{caveat}, unless {lengths}" for caveat in plain.caveats)


def _joined(one: Mapping[Symbol, int], other: Mapping[Symbol, int]) -> dict[Symbol, int]:
    return {symbol: lcm(one.get(symbol, 1), other.get(symbol, 1)) for symbol in (*one, *other)}


def _summed(count: Poly, scopes: Sequence[Scope], programs: Programs) -> Poly:
    """Sum over scopes and programs.

    The sum stays unevaluated where rows have different offsets in sectors.
    """
    indices = {index.key for index in programs.indices} | {scope.index.key for scope in scopes if isinstance(scope, Loop)}
    if not any(indices & floor.free for floor in floors(count)):
        return programs.sum(repeat_in_scopes(count, scopes))
    loops = [(index, ZERO, size) for index, size in zip(programs.indices, programs.sizes, strict=True)]
    for scope in reversed(scopes):
        if isinstance(scope, Condition):
            count = count * resolve_tests(scope.truth)
        else:
            count = _sum(count, scope.index, scope.low, scope.high)
    for index, low, high in reversed(loops):
        count = _sum(count, index, low, high)
    return count


def _sum(body: Poly, index: Symbol, low: Poly, high: Poly) -> Poly:
    if index.key not in body.free:
        return body * extent(low, high)
    return poly(Sum(body, index, low, high))
