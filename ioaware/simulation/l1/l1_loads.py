"""Find the accesses of a kernel's IR that are loads through the L1."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.compilation.compiled_loads import CompiledLoad, place

_PLAIN = ("tt.load", "ttg.async_copy_global_to_local")


def loads_by_l1(touches: Sequence[Touch], loads: Sequence[CompiledLoad]) -> list[bool]:
    """Return for each access whether it is a load through the L1.

    Several loads of one source line are matched in order; where the compiler made another number of them, they all use it if
    one does.
    """
    compiled: dict[str, list[bool]] = defaultdict(list)
    for load in loads:
        compiled[load.place].append(load.by_l1)
    places = [place(touch.frames) if touch.kind == "read" and touch.operation in _PLAIN else None for touch in touches]
    number: Counter[str] = Counter()
    found: list[bool] = []
    for where in places:
        ways = compiled.get(where, [True]) if where is not None else [False]
        at = number[where or ""]
        found.append(ways[at] if len(ways) == places.count(where) else any(ways))
        number[where or ""] += 1
    return found
