"""Find which loads of a compiled kernel use the L1, and their evictions.

Asynchronous copies of 16 bytes and loads with the modifiers `.cg` and `.cv` bypass it, and so does the tensor memory
accelerator. Source: PTX ISA, cache operators, and `cp.async`; eviction priorities.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from ioaware.analysis.ir.mlir.locations import frames
from ioaware.compilation.compiled_accesses import LOCATION

_LOAD = re.compile(r"\b(tt\.load|ttg\.async_copy_global_to_local)\b(.*)loc\((#loc\d*)\)")
_BYPASSING = re.compile(r"cacheModifier = (cg|cv)\b")
_EVICTION = re.compile(r"evictionPolicy = (evict_first|evict_last)\b")
_WIDE_COPY = re.compile(r"\bcp\.async\.cg\b")
_NARROW_COPY = re.compile(r"\bcp\.async\.ca\b")


Eviction: TypeAlias = Literal["evict_normal", "evict_first", "evict_last"]
"""Which lines leave a cache before those of other loads, and which after them."""


@dataclass(frozen=True, slots=True)
class CompiledLoad:
    """Load of a compiled kernel: its place in the source, and whether it uses the L1."""

    place: str
    by_l1: bool
    eviction: Eviction = "evict_normal"


def compiled_loads(ttgir: str, ptx: str) -> tuple[CompiledLoad, ...]:
    """Return the loads in order.

    A copy bypasses the L1 if the kernel's copies are of 16 bytes.
    """
    aliases = dict(LOCATION.findall(ttgir))
    narrow = bool(_NARROW_COPY.search(ptx)) or not _WIDE_COPY.search(ptx)
    found: list[CompiledLoad] = []
    for operation, rest, location in _LOAD.findall(ttgir):
        by_copy = operation == "ttg.async_copy_global_to_local" and not narrow
        past_l1 = by_copy or _BYPASSING.search(rest)
        found.append(CompiledLoad(place(frames(location, aliases)), not past_l1, _eviction(rest)))
    return tuple(found)


def _eviction(operands: str) -> Eviction:
    named = _EVICTION.search(operands)
    return cast(Eviction, named[1]) if named else "evict_normal"


def place(where: Sequence[str]) -> str:
    """Return the frames without folders: a cached kernel may come from another path."""
    return " ".join(frame.rpartition("/")[2] for frame in where)
