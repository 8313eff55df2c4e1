"""Sectors of an access over the whole launch: in closed form where lengths are whole sectors, as a sum where they are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ioaware.analysis.ir.build import choice, decided, substitute
from ioaware.analysis.ir.counts import Programs, repeated
from ioaware.analysis.ir.poly import ONE, ZERO, Poly, Sum, Symbol, poly
from ioaware.analysis.ir.record import Condition, Scope, Touch
from ioaware.analysis.ir.sectors import alignment, has_unknown, multiples, sectors_of
from ioaware.analysis.ir.sweep import Rewriting
from ioaware.analysis.ir.tiles import extent


@dataclass(frozen=True, slots=True)
class SectorTotal:
    """`aligned` holds where `condition` does, `anyway` always; they are one where no condition is needed."""

    anyway: Poly
    aligned: Poly
    condition: Poly
    doubts: tuple[str, ...]

    @property
    def count(self) -> Poly:
        return choice(self.condition, self.aligned, self.anyway)


def sector_total(touch: Touch, scopes: Sequence[Scope], programs: Programs) -> SectorTotal | None:
    """None where the shape of the access has no rule, or where memory decides about its addresses."""
    plain = sectors_of(touch)
    if plain is None or has_unknown(plain.count):
        return None
    needed = alignment(touch.target.offset)
    if not needed:
        closed = programs.sum(repeated(plain.count, scopes))
        return SectorTotal(closed, closed, ONE, plain.doubts)
    forth, back, condition = multiples(needed)
    spread = _Spread(forth, programs, scopes)
    alike = sectors_of(
        replace(touch, mask=spread(touch.mask), target=replace(touch.target, offset=spread(touch.target.offset)))
    )
    anyway = _summed(plain.count, scopes, programs)
    if alike is None or has_unknown(alike.count):
        return SectorTotal(anyway, anyway, ONE, plain.doubts)
    aligned = substitute(spread.programs.sum(repeated(alike.count, spread.scopes)), back)
    doubts = plain.doubts
    if doubts and not alike.doubts:
        lengths = " and ".join(f"{symbol.name} % {multiple} == 0" for symbol, multiple in needed.items())
        doubts = tuple(f"{doubt}, unless {lengths}" for doubt in doubts)
    return SectorTotal(anyway, aligned, condition, doubts)


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
