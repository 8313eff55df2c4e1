"""Count one memory instruction in each program, and say why a count is not exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.accesses.values import lane_symbol
from ioaware.analysis.ir.algebra.poly import Unknown
from ioaware.analysis.ir.caveats import Caveat
from ioaware.analysis.ir.loops.access_totals import Counted, repeat_in_scopes, unknowns
from ioaware.analysis.ir.sectors.sector_totals import SectorTotal
from ioaware.analysis.ir.sums.closed_forms import linear
from ioaware.machine.model import SECTOR_BYTES


@dataclass(frozen=True)
class AccessCounts:
    """What one memory instruction moves, per iteration of its loops in each program.

    `undecided` are the unknowns in its conditions, taken as true; `data` those in its mask, taken as all lanes.
    """

    touch: Touch
    undecided: Sequence[Unknown]
    data: Sequence[Unknown]
    lanes: list[Counted] = field(default_factory=list[Counted])
    executions: list[Counted] = field(default_factory=list[Counted])
    sectors: list[SectorTotal | None] = field(default_factory=list[SectorTotal | None])

    @property
    def at_most(self) -> bool:
        """Return whether the lanes are an upper bound."""
        return bool(self.undecided or self.data)

    @property
    def bytes(self) -> list[Counted]:
        """Return the bytes of the active lanes."""
        return [(lanes * self.touch.element_bytes, scopes, programs) for lanes, scopes, programs in self.lanes]

    @cached_property
    def lanes_of_programs(self) -> list[Counted]:
        """Return the lanes, summed over the loops of each program."""
        return [(repeat_in_scopes(lanes, scopes), (), programs) for lanes, scopes, programs in self.lanes]

    @cached_property
    def named(self) -> list[Unknown]:
        """Return the unknowns that its count of lanes is a formula of."""
        return [unknown for lanes, _, _ in self.lanes_of_programs for unknown in unknowns(lanes)]

    @cached_property
    def lane_caveats(self) -> tuple[Caveat, ...]:
        """Return a caveat for each unknown that makes the count of lanes inexact."""

        def caveat(rest: str) -> Caveat:
            return Caveat(self.touch.operation, _line(self.touch), "counts", "count", rest)

        found = [caveat(f"at most: {u.name} decides the lanes and {u.why}") for u in (*self.undecided, *self.data)]
        found += [caveat(f"in terms of {u.name}: {u.why}") for u in self.named]
        return tuple(dict.fromkeys(found))

    @cached_property
    def sector_caveats(self) -> tuple[Caveat, ...]:
        """Return the reasons why its sectors are unknown."""
        of, line = "sectors of ", _line(self.touch)
        if None in self.sectors:
            unknown = "not known: their addresses are not affine in the lanes"
            return (Caveat(self.touch.operation, line, "are", "are", unknown, of),)
        found = dict.fromkeys(caveat for sector in self.sectors if sector for caveat in sector.caveats)
        return tuple(Caveat(self.touch.operation, line, "at most:", "at most:", caveat, of) for caveat in found)


def beyond_its_tensor(touch: Touch, where: str) -> tuple[Caveat, ...]:
    """Return a remark on an access that leaves its tensor."""
    return (Caveat(touch.operation, _line(touch), "reaches", "reach", f"beyond {where}"),) if where else ()


def written_in_part(touch: Touch, stores: int) -> tuple[Caveat, ...]:
    """Return a remark on a store that leaves gaps in its sectors.

    Hardware counts such sectors differently.

    The counts are of each instruction by itself. The caches merge what several stores write to one sector, and split what one
    store writes in several requests. Lanes a sector or more apart matter only where several `stores` write to the tensor.
    """
    steps = [linear(touch.target.offset, lane_symbol(at, size)) for at, size in enumerate(touch.shape) if size > 1]
    constant = [abs(int(step[0].constant)) for step in steps if step is not None and step[0].constant]
    apart = min(constant, default=0)
    if touch.kind != "write" or apart <= touch.element_bytes or (apart >= SECTOR_BYTES and stores == 1):
        return ()
    rest = f"lanes lie {apart} bytes apart, and a counter that merges or splits such writes differs"
    return (Caveat(touch.operation, _line(touch), "are written in part:", "are written in part:", rest, "sectors of "),)


def _line(touch: Touch) -> str:
    return touch.frames[0] if touch.frames else "an unnamed line"
