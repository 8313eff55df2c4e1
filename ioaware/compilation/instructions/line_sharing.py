"""Find loads and stores of which several instructions touch one line of the L1.

Such a line has hit before the program accesses it again. A thread may move adjacent elements one by one, or the lanes of a warp
cover less than a line. Several warps may load the same elements. A row of the tile may begin inside a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ioaware.compilation.compiled_accesses import Access, Kind, accesses
from ioaware.compilation.instructions.compiled_loads import CompiledLoad, place
from ioaware.compilation.instructions.disassembly import disassembled, instructions_of
from ioaware.compilation.instructions.narrow_stores import tile_addresses
from ioaware.compilation.instructions.waits import NO_WAITS, AfterWaits, touches_after_waits
from ioaware.compilation.instructions.wide_copies import LINE_BYTES
from ioaware.compilation.layouts import Indices, distinct_in_rows, requests

STARTS = tuple(range(0, LINE_BYTES, 16))
"""Places within a line where rows may begin."""


@dataclass(frozen=True, slots=True)
class SharedLines:
    """Access at a place of the source, and what its instructions share.

    `by_start` is the share of its lines that several of them touch, at each of `STARTS`. `after_waits` are those that they
    touch again after a wait.
    """

    kind: Kind
    place: str
    by_start: tuple[float, ...] = (0.0,) * len(STARTS)
    after_waits: AfterWaits = NO_WAITS


NOT_SHARED = SharedLines("read", "")


def shared_lines(ttgir: str, ptx: str) -> tuple[SharedLines, ...]:
    """Return the accesses of a compiled kernel in order.

    None are found where a layout or width is unknown. The tile is taken as rows of adjacent elements.
    """
    try:
        found = accesses(ttgir, ptx)
    except ValueError:
        return ()
    return tuple(SharedLines(one.kind, place(one.frames), _by_start(one)) for one in found)


def with_waits(lines: Sequence[SharedLines], loads: Sequence[CompiledLoad], cubin: bytes) -> tuple[SharedLines, ...]:
    """Return the accesses with what they touch again after waits.

    The machine code says so of loads through the L1.
    """
    by_l1 = {one.place for one in loads if one.by_l1}
    by_load = [one.kind == "read" and one.place in by_l1 and max(one.by_start) > 0 for one in lines]
    text = disassembled(cubin) if cubin and any(by_load) else None
    if text is None:
        return tuple(lines)
    found = touches_after_waits(instructions_of(text)[0])
    return tuple(
        replace(one, after_waits=found.get(one.place.partition(" ")[0], NO_WAITS)) if loaded else one
        for one, loaded in zip(lines, by_load, strict=True)
    )


def _by_start(access: Access) -> tuple[float, ...]:
    if access.layout is None:
        return (float(access.warps > 1 and not access.once),) * len(STARTS)
    chosen = requests(access.layout, access.shape, access.vector, access.once)
    return tuple(_shared(tile_addresses(access, start, unit_bytes=LINE_BYTES).ravel()[chosen]) for start in STARTS)


def _shared(addresses: Indices) -> float:
    """Return the share of lines that several instructions touch.

    `addresses` has a row for each instruction.
    """
    _, times = np.unique(distinct_in_rows(addresses // LINE_BYTES), return_counts=True)
    return float(np.mean(times > 1))


def start_numbers(starts: Indices) -> Indices:
    """Return the number of the place in `STARTS` where rows begin.

    For addresses between two it is the next one, or the last.
    """
    return np.minimum(-(-(starts % LINE_BYTES) // STARTS[1]), len(STARTS) - 1)
