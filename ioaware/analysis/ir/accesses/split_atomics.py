"""Join the two instructions that Triton makes of one atomic on floats.

`tl.atomic_max(p, x)` and `atomic_min` of floats become two integer atomics: the bits of positive floats are ordered as
integers, those of negative ones the other way round. The first runs in lanes where the sign bit is 0, the second in the
others. The bit depends on data. A count is linear in its mask, and the sum of both masks does not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.loops.access_totals import unknowns


def join_split_atomics(touches: Sequence[Touch]) -> list[Touch]:
    """Return the accesses with such pairs as one access each."""
    joined: list[Touch] = []
    for touch in touches:
        before = joined[-1] if joined else None
        if before and touch.kind == "atomic" and replace(touch, mask=before.mask) == before:
            both = before.mask + touch.mask
            if unknowns(touch.mask) and not unknowns(both):
                joined[-1] = replace(before, mask=both)
                continue
        joined.append(touch)
    return joined
