"""Split the indices that a kernel decodes.

Such are the tile `pid % tiles` and the batch `pid // tiles` of one program id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ioaware.analysis.ir.accesses.access_log import Condition, Touch
from ioaware.analysis.ir.algebra.constructors import floor_div
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Poly, Symbol, poly
from ioaware.analysis.ir.algebra.prover import positive
from ioaware.analysis.ir.loops.substitution import Rewriting
from ioaware.analysis.ir.sums.reindex import floors

MOST_SPLITS = 6
"""Most indices that are split one after another."""


def decoded(touch: Touch) -> Touch:
    """Return the access with one index for each digit that it takes of an index.

    An index from 0 to k D - 1 that is used as floor(index / D) becomes D tens + ones. The two take all pairs of values, so
    that the access reaches what it did.
    """
    for _ in range(MOST_SPLITS):
        truths = [scope.truth for scope in touch.scopes if isinstance(scope, Condition)]
        rewrite = _splitting([touch.target.offset, touch.mask, *truths])
        if rewrite is None:
            break
        scopes = tuple(rewrite.scope(scope) for scope in touch.scopes)
        target = replace(touch.target, offset=rewrite(touch.target.offset))
        touch = replace(touch, target=target, mask=rewrite(touch.mask), scopes=scopes)
    return touch


def _splitting(values: Sequence[Poly]) -> Rewriting | None:
    """Return the substitution that splits the first index with a divisor of its range."""
    for floor in (floor for value in values for floor in floors(value)):
        index, divisor = floor.numerator.atom, floor.denominator
        if not isinstance(index, Symbol) or index.upper is None or index.lower != ZERO:
            continue
        times = floor_div(index.upper + 1, divisor)
        if index.key in divisor.free or divisor == ONE or not positive(divisor) or times * divisor != index.upper + 1:
            continue
        tens, ones = Symbol(f"{index.name}_tens", ZERO, times - 1), Symbol(f"{index.name}_ones", ZERO, divisor - 1)
        return Rewriting({index.key: divisor * poly(tens) + poly(ones)})
    return None


__all__ = ["decoded"]
