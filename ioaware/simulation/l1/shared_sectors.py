"""Estimate how often stores request sectors that their instructions share.

The formulas count each sector of a store once. Instructions that share sectors each request them, and the L1 merges a part of
these requests, as their times decide. What share it merges is a mean of counted stores, by who shares the sectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from ioaware.analysis.formulas.evaluate import OutsideFormulaError
from ioaware.analysis.ir import Count
from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.accesses.kernel_traffic import KernelTraffic
from ioaware.compilation.instructions.narrow_stores import NarrowStore, source_line
from ioaware.compilation.resource_usage import Resources
from ioaware.derivation.derived import Derived
from ioaware.derivation.l1_requests import BY_TMA
from ioaware.machine.model import SECTOR_BYTES
from ioaware.simulation.addresses.row_starts import row_starts

OF_A_THREAD, OF_NEIGHBOURS = 0.4, 0.65
"""Share of the further requests of a sector that reach the L2.

The first: several instructions of one thread write the sector. The second: those of neighbours do, where a row of a tile begins
inside a sector. Counted on an H200 in kernels of other libraries, none of them attention: medians of 0.41 in 15 launches, from
0.08 to 0.71, and of 0.64 in 54, from 0 to 1.04. In two halves of the latter by chance, means are 0.53 and 0.69.
"""


@dataclass(frozen=True, slots=True)
class SharedSectors:
    """Bytes that stores request beyond each sector once: expected, and the most."""

    expected_bytes: int = 0
    most_bytes: int = 0


def shared_sectors(used: Resources, traffic: KernelTraffic, touches: Sequence[Touch], derived: Derived) -> SharedSectors:
    """Return what the stores of a launch request beyond each sector once.

    Those of TMA are left out. Nothing is expected of a launch with a store whose sectors are unknown.
    """
    stores = {store.line: store for store in used.narrow_stores}
    places = {(touch.operation, touch.frames): touch for touch in touches if touch.kind == "write"}
    expected = most = 0.0
    known = True
    for access in traffic.accesses:
        store = stores.get(access.source.rpartition("/")[2])
        touch = places.get((access.operation, access.frames))
        if store is None or touch is None or access.operation in BY_TMA:
            continue
        elements, sectors = (_value(count, derived) for count in (access.elements, access.sectors))
        known &= sectors is not None
        if sectors is not None and sectors == elements:
            continue  # each element lies in a sector of its own
        own, others = further_requests(touch, store)
        size = SECTOR_BYTES * ((elements or 0) if sectors is None else sectors)
        most += size * (own + others)
        expected += size * (OF_A_THREAD * own + OF_NEIGHBOURS * others)
    return SharedSectors(round(expected) if known else 0, round(most))


def written_apart(touches: Sequence[Touch], stores: Sequence[NarrowStore]) -> list[float]:
    """Return of each access the share of sectors whose parts are written apart.

    Instructions of neighbours write them. The L1 has no valid copy of such a sector: of rows stored and read again, in
    `ioaware/recorded/l1/h200-stores.json`, 0.30 are requested again where stores request 0.28 more.
    """
    narrow = {store.line: store for store in stores}
    found = [narrow.get(source_line(touch.frames)) if touch.kind == "write" else None for touch in touches]
    return [
        OF_NEIGHBOURS * further_requests(touch, store)[1] if store and touch.operation not in BY_TMA else 0.0
        for touch, store in zip(touches, found, strict=True)
    ]


def _value(count: Count | None, derived: Derived) -> int | None:
    """Return a count at the derived values, None where it is unknown."""
    try:
        return None if count is None else cast(int, count.evaluate(derived.values))
    except (OutsideFormulaError, KeyError, ValueError):
        return None


def further_requests(touch: Touch, store: NarrowStore) -> tuple[float, float]:
    """Return the mean further requests of a sector, by one thread and by neighbours.

    The rows of the tiles begin wherever indices put them, each place within a sector as often.
    """
    step = SECTOR_BYTES // len(store.by_start)
    times = [store.by_start[start // step] for start in row_starts(touch)]
    own = store.by_start[0]
    return own - 1, max(0.0, sum(times) / len(times) - own)
