"""Sectors of an access over the whole launch: in closed form where lengths are whole sectors, as a sum where they are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm

from sympy import Expr

from ioaware.analysis.ir.alignment import alignment, has_unknown, multiples, whole_tiles
from ioaware.analysis.ir.build import choice, decided, substitute
from ioaware.analysis.ir.counts import Programs, repeated
from ioaware.analysis.ir.poly import ZERO, Poly, Sum, Symbol, poly, total
from ioaware.analysis.ir.record import Condition, Scope, Touch
from ioaware.analysis.ir.sectors import Sectors, sectors_of
from ioaware.analysis.ir.simplify import simplified
from ioaware.analysis.ir.sweep import Rewriting
from ioaware.analysis.ir.symbolic import only_where, to_sympy
from ioaware.analysis.ir.tiles import extent
from ioaware.analysis.ir.traffic import SECTOR_BYTES


@dataclass(frozen=True, slots=True)
class SectorTotal:
    """`aligned` holds where the lengths `needed` are multiples of these numbers, `anyway` always (None: nobody knows)."""

    anyway: Poly | None
    aligned: Poly
    needed: Mapping[Symbol, int]
    doubts: tuple[str, ...]

    @property
    def count(self) -> Expr:
        """In 32-byte sectors."""
        return _formula(self.needed, self.aligned, self.anyway)


def sector_bytes(parts: Sequence[SectorTotal | None]) -> Expr | None:
    """The bytes of the sectors of several accesses: one condition for all; where it does not hold each one has its own."""
    known = [part for part in parts if part is not None]
    if len(known) != len(parts):
        return None
    needed: dict[Symbol, int] = {}
    for part in known:
        needed = _joined(needed, part.needed)
    anyway = [part.anyway if part.anyway is None else _choice(part.needed, part.aligned, part.anyway) for part in known]
    rest = None if None in anyway else total(value for value in anyway if value is not None)
    aligned = simplified(total(part.aligned for part in known)) * SECTOR_BYTES
    return _formula(needed, aligned, None if rest is None else rest * SECTOR_BYTES)


def _choice(needed: Mapping[Symbol, int], aligned: Poly, anyway: Poly) -> Poly:
    return choice(multiples(needed)[2], aligned, anyway)


def _formula(needed: Mapping[Symbol, int], aligned: Poly, anyway: Poly | None) -> Expr:
    if anyway is None:
        return only_where(multiples(needed)[2], aligned)
    return to_sympy(_choice(needed, aligned, anyway))


def sector_total(touch: Touch, scopes: Sequence[Scope], programs: Programs) -> SectorTotal | None:
    """None where the shape of the access has no rule, or where memory decides about its addresses."""
    plain = sectors_of(touch)
    if plain is not None and has_unknown(plain.count):
        return None
    rows = alignment(touch.target.offset)
    if plain is not None and not rows and not plain.doubts:
        closed = programs.sum(repeated(plain.count, scopes))
        return SectorTotal(closed, closed, {}, ())
    anyway = None if plain is None else _summed(plain.count, scopes, programs)
    fallback = None if plain is None or anyway is None else SectorTotal(anyway, anyway, {}, plain.doubts)
    for needed in (rows, _joined(rows, whole_tiles(touch.target.offset, touch.mask))):
        forth, back, _ = multiples(needed)
        spread = _Spread(forth, programs, scopes)
        target = replace(touch.target, offset=spread(touch.target.offset))
        alike = sectors_of(replace(touch, mask=spread(touch.mask), target=target))
        if alike is None or has_unknown(alike.count):
            continue
        aligned = substitute(spread.programs.sum(repeated(alike.count, spread.scopes)), back)
        found = SectorTotal(anyway, aligned, needed, _unless(plain, alike, needed))
        if not alike.doubts:
            return found
        fallback = found if fallback is None or needed == rows else fallback
    return fallback


def _unless(plain: Sectors | None, alike: Sectors, needed: Mapping[Symbol, int]) -> tuple[str, ...]:
    """What keeps the sectors from being exact, and for which lengths nothing does."""
    lengths = " and ".join(f"{symbol.name} % {multiple} == 0" for symbol, multiple in needed.items())
    if plain is None:
        return (f"known only where {lengths}", *alike.doubts)
    return tuple(doubt if alike.doubts else f"{doubt}, unless {lengths}" for doubt in plain.doubts)


def _joined(one: Mapping[Symbol, int], other: Mapping[Symbol, int]) -> dict[Symbol, int]:
    return {symbol: lcm(one.get(symbol, 1), other.get(symbol, 1)) for symbol in (*one, *other)}


class _Spread(Rewriting):
    """Parameters as multiples everywhere: in the grid, in the loops, and in the bounds that indices are known by."""

    def __init__(self, forth: Mapping[str, Poly], programs: Programs, scopes: Sequence[Scope]) -> None:
        super().__init__(forth)
        sizes = tuple(map(self, programs.sizes))
        indices = tuple(map(self.index, programs.indices))
        self.programs = Programs((indices[0], indices[1], indices[2]), (sizes[0], sizes[1], sizes[2]))
        self.scopes = [self.scope(scope) for scope in scopes]


def _summed(count: Poly, scopes: Sequence[Scope], programs: Programs) -> Poly:
    """Term by term: where no length is a whole number of sectors there is nothing to close."""
    loops = [(index, ZERO, size) for index, size in zip(programs.indices, programs.sizes, strict=True)]
    for scope in reversed(scopes):
        if isinstance(scope, Condition):
            count = count * decided(scope.truth)
        else:
            count = _sum(count, scope.index, scope.low, scope.high)
    for index, low, high in reversed(loops):
        count = _sum(count, index, low, high)
    return count


def _sum(body: Poly, index: Symbol, low: Poly, high: Poly) -> Poly:
    if index.key not in body.free:
        return body * extent(low, high)
    return poly(Sum(body, index, low, high))
