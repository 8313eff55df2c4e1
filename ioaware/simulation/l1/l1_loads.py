"""Find the loads of a kernel's IR through the L1, and their evictions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.compilation.compiled_loads import CompiledLoad, Eviction, place

_PLAIN = ("tt.load", "ttg.async_copy_global_to_local")


def loads_by_l1(touches: Sequence[Touch], loads: Sequence[CompiledLoad]) -> list[Eviction | None]:
    """Return for each access the eviction that it asks for.

    It is None unless the access is a load through the L1. Several loads of one source line are matched in order. Where the
    compiler made another number of them, they all use it if one does, and ask for an eviction that all ask for.
    """
    compiled: dict[str, list[CompiledLoad]] = defaultdict(list)
    for load in loads:
        compiled[load.place].append(load)
    places = [place(touch.frames) if touch.kind == "read" and touch.operation in _PLAIN else None for touch in touches]
    number: Counter[str] = Counter()
    found: list[Eviction | None] = []
    for where in places:
        ways = compiled.get(where, [CompiledLoad(where, by_l1=True)]) if where is not None else []
        at = number[where or ""]
        own = [ways[at]] if ways and len(ways) == places.count(where) else ways
        wanted: set[Eviction] = {one.eviction for one in own if one.by_l1}
        common: Eviction = wanted.pop() if len(wanted) == 1 else "evict_normal"
        found.append(common if any(one.by_l1 for one in own) else None)
        number[where or ""] += 1
    return found
