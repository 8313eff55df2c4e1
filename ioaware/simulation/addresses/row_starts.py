"""Find where the rows of a tile begin, within sectors or lines."""

from __future__ import annotations

from math import gcd

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.accesses.values import lane_symbol
from ioaware.analysis.ir.algebra.poly import Symbol
from ioaware.machine.model import SECTOR_BYTES


def row_starts(touch: Touch, unit_bytes: int = SECTOR_BYTES) -> list[int]:
    """Return where rows of adjacent lanes may begin within a unit, as a sector."""
    along = {lane_symbol(dimension, size).key for dimension, size in enumerate(touch.shape)}
    first, step = 0, unit_bytes
    for monomial, factor in touch.target.offset.terms.items():
        if not monomial:
            first = int(factor)
        elif not (
            len(monomial) == 1 and isinstance(one := monomial[0], Symbol) and one.key in along and factor == touch.element_bytes
        ):
            step = gcd(step, int(factor))
    return [(first + start) % unit_bytes for start in range(0, unit_bytes, step)]
