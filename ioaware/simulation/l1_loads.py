"""Find the loads of a compiled kernel that use the L1.

Asynchronous copies of 16 bytes and loads with the modifiers `.cg` and `.cv` bypass it, and so does the tensor memory
accelerator. Source: PTX ISA, cache operators, and `cp.async`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.mlir.locations import frames

_LOAD = re.compile(r"\b(tt\.load|ttg\.async_copy_global_to_local)\b(.*)loc\((#loc\d*)\)")
_LOCATION = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_BYPASSING = re.compile(r"cacheModifier = (cg|cv)\b")
_WIDE_COPY = re.compile(r"\bcp\.async\.cg\b")
_NARROW_COPY = re.compile(r"\bcp\.async\.ca\b")
_PLAIN = ("tt.load", "ttg.async_copy_global_to_local")


def loads_by_l1(touches: Sequence[Touch], ttgir: str, ptx: str) -> list[bool]:
    """Return for each access whether it is a load through the L1.

    A load compiled to an asynchronous copy bypasses the L1 if the kernel's copies are of 16 bytes. Several loads of one
    source line are matched in order; where the compiler made another number of them, they all use it if one does.
    """
    aliases = dict(_LOCATION.findall(ttgir))
    narrow = bool(_NARROW_COPY.search(ptx)) or not _WIDE_COPY.search(ptx)
    compiled: dict[str, list[bool]] = defaultdict(list)
    for operation, rest, location in _LOAD.findall(ttgir):
        by_copy = operation == "ttg.async_copy_global_to_local" and not narrow
        compiled[_place(frames(location, aliases))].append(not (by_copy or _BYPASSING.search(rest)))
    places = [_place(touch.frames) if touch.kind == "read" and touch.operation in _PLAIN else None for touch in touches]
    number: Counter[str] = Counter()
    found: list[bool] = []
    for place in places:
        ways = compiled.get(place, [True]) if place is not None else [False]
        at = number[place or ""]
        found.append(ways[at] if len(ways) == places.count(place) else any(ways))
        number[place or ""] += 1
    return found


def _place(where: tuple[str, ...]) -> str:
    """Return the frames without folders: a cached kernel may come from another path."""
    return " ".join(frame.rpartition("/")[2] for frame in where)
