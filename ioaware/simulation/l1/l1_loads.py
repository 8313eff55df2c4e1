"""Find the loads of a kernel's IR through the L1, and their evictions.

The lines that its instructions share are found, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.compilation.instructions.compiled_loads import CompiledLoad, Eviction, place
from ioaware.compilation.instructions.line_sharing import NOT_SHARED, SharedLines

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


def lines_of_touches(touches: Sequence[Touch], lines: Sequence[SharedLines]) -> list[SharedLines]:
    """Return for each access the lines that several instructions touch.

    There are none where they are unknown. Several accesses of one source line are matched in order.
    """
    compiled: dict[tuple[str, str], list[SharedLines]] = defaultdict(list)
    for one in lines:
        compiled[one.kind, one.place].append(one)
    places = [(touch.kind, place(touch.frames)) for touch in touches]
    number: Counter[tuple[str, str]] = Counter()
    found: list[SharedLines] = []
    for where in places:
        ways, at = compiled.get(where, []), number[where]
        found.append(ways[at if len(ways) == places.count(where) else 0] if ways else NOT_SHARED)
        number[where] += 1
    return found
