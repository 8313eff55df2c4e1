"""State where hardware counters differ because of the machine code.

They differ from the formulas, which do not see the machine code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from ioaware.analysis.formulas.evaluate import OutsideFormulaError
from ioaware.analysis.ir.accesses.kernel_traffic import Access, KernelTraffic
from ioaware.analysis.ir.caveats import Caveat, sentences
from ioaware.compilation.instructions.narrow_stores import NarrowStore
from ioaware.compilation.resource_usage import Resources
from ioaware.machine.model import SECTOR_BYTES


def machine_code_notes(used: Resources, traffic: KernelTraffic | None, values: Mapping[str, int]) -> Iterator[str]:
    """Yield notes for spilled registers and for accesses split within a sector.

    Such stores write a sector by several instructions, and such copies fetch it by several.
    """
    if used.local_bytes:
        yield f"{used.local_bytes} bytes of local memory a thread: registers that are spilled move bytes that no formula counts"
    repeated = _repeated(used, traffic, values)
    yield from sentences(_caveat(access, most) for access, most in repeated)
    yield from sentences(_copy_caveat(access, times) for access, times in _refetched(used, traffic))


def refetched_bytes(used: Resources, traffic: KernelTraffic, values: Mapping[str, int]) -> int:
    """Return the bytes that copies past the L1 fetch again.

    The formulas count each sector once.
    """
    total = 0.0
    for access, times in _refetched(used, traffic):
        if access.sectors is not None and access.sectors.symbols <= values.keys():
            total += (times - 1) * cast(int, access.sectors.evaluate(values)) * SECTOR_BYTES
    return round(total)


def _refetched(used: Resources, traffic: KernelTraffic | None) -> list[tuple[Access, float]]:
    """Return the loads whose copies fetch sectors more than once, and how often."""
    fetches = {(copy.line, copy.element_bytes): copy.fetches for copy in used.copies}
    loads = [access for access in (traffic.accesses if traffic else ()) if access.kind == "read"]
    keys = [(access, (access.source.rpartition("/")[2], access.element_bytes)) for access in loads]
    return [(access, fetches[key]) for access, key in keys if key in fetches]


def _copy_caveat(access: Access, times: float) -> Caveat:
    rest = f"counted once: copies past the L1 share them, and a counter sees {times:.3g} times as many"
    return Caveat(access.operation, access.source, "are", "are", rest, "sectors of ")


def _repeated(used: Resources, traffic: KernelTraffic | None, values: Mapping[str, int]) -> list[tuple[Access, float]]:
    """Return the stores whose instructions share sectors.

    The number beside each says how often a counter may see a sector.
    """
    stores = [access for access in (traffic.accesses if traffic else ()) if access.kind == "write"]
    pairs = [
        (access, store) for access in stores for store in used.narrow_stores if access.source.rpartition("/")[2] == store.line
    ]
    times = [(access, _repetition(access, store, values)) for access, store in pairs]
    return [(access, most) for access, most in times if most > 1]


def _caveat(access: Access, times: float) -> Caveat:
    sharing = "narrow instructions" if access.operation == "tt.store" else "copies of 128 bytes by TMA"
    rest = f"counted once: {sharing} share them, and a counter sees up to {times:.3g} times as many"
    return Caveat(access.operation, access.source, "are", "are", rest, "sectors of ")


def _repetition(access: Access, store: NarrowStore, values: Mapping[str, int]) -> float:
    """Return how often a counter may see a sector of the access.

    1 where each element lies in a sector of its own.
    """
    try:
        sectors = cast(int, access.sectors.evaluate(values)) if access.sectors and access.sectors_exact else 0
        elements = cast(int, access.elements.evaluate(values))
    except (OutsideFormulaError, KeyError, ValueError):
        return store.unaligned
    if sectors * SECTOR_BYTES == elements * access.element_bytes:  # rows begin and end at sectors
        return store.aligned
    return 1 if elements and sectors == elements else store.unaligned
