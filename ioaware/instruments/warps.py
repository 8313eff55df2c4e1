"""What a kernel's warps ask of their L1, as counters of a GPU see it: from the layouts and widths it was compiled with.

`derive` counts the sectors of an access of a whole tile once. A warp asks for the sectors of each of its instructions: more,
where a row that is not aligned splits into narrow accesses, where several instructions or warps share a sector, where every
warp loads the same scalar. What the L1 then has is left open: this is what it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray
from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir.counts import Programs
from ioaware.analysis.ir.executions import alike
from ioaware.analysis.ir.record import Touch
from ioaware.analysis.layout import Indices, requests
from ioaware.instruments.captured import CapturedLaunch
from ioaware.instruments.compile import compiled
from ioaware.instruments.compiled_accesses import Access, accesses
from ioaware.instruments.launch_traffic import launch_touches
from ioaware.instruments.sectors import SECTOR_BYTES

TMA_ROW_BYTES = 128
"""The widest row of a box in shared memory: a wider tile is copied in several."""
Mask = NDArray[np.bool_]


@dataclass(slots=True)
class Asked:
    """What the instructions of a launch ask for: sectors and bytes of loads and stores, bytes of TMA."""

    read_sectors: int = 0
    read_bytes: int = 0
    write_sectors: int = 0
    write_bytes: int = 0
    tma_read_bytes: int = 0
    tma_write_bytes: int = 0


def touched(addresses: Indices, mask: Mask, access: Access, element_bytes: int) -> tuple[int, int]:
    """Sectors, and distinct bytes, of all instructions of one execution of an access; `addresses` in bytes, of its tile."""
    if access.layout is None:
        times = int(mask.all()) * (1 if access.once else access.warps)
        return times, times * element_bytes
    chosen = requests(access.layout, access.shape, access.vector, access.once)
    active = mask.ravel()[chosen]
    elements = np.where(active, addresses.ravel()[chosen], -1)
    if element_bytes > 1 and (addresses % element_bytes).any():
        raise ValueError("an element may lie in two sectors")
    together = np.where(active, elements // SECTOR_BYTES, -1).reshape(-1, access.lanes * access.vector)
    return _distinct(together), _distinct(elements) * element_bytes


def _distinct(rows: Indices) -> int:
    """Distinct numbers of each row, those below 0 left out, over all rows."""
    ordered = np.sort(rows, axis=1)
    new = ordered >= 0
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return int(np.count_nonzero(new))


def boxes(addresses: Indices, mask: Mask, element_bytes: int) -> int:
    """Bytes of the sectors that a TMA store writes, a box of at most 128 bytes a row at a time; [rows, columns]."""
    columns = TMA_ROW_BYTES // element_bytes
    split = addresses.reshape(-1, min(columns, addresses.shape[-1]))
    return SECTOR_BYTES * _distinct(np.where(mask.reshape(split.shape), split // SECTOR_BYTES, -1))


def launch_asks(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> Asked:
    """What a captured launch asks for at the given values, compiled for a GPU of NVIDIA's.

    Raises `ValueError` that says where there is no telling: addresses that data decide, a layout that is not understood.
    """
    assembly = compiled(launch, values, gpu).asm
    touches, programs = launch_touches(launch, values, gpu)
    return asked(touches, programs, accesses(assembly["ttgir"], assembly["ptx"]))


def asked(touches: Sequence[Touch], programs: Programs, known: Sequence[Access]) -> Asked:
    """The touches of a launch, each by the operation that stands on its line. Raises `ValueError` where there is no telling."""
    total = Asked()
    for touch in touches:
        if touch.kind == "atomic":
            continue
        by_tma = touch.operation.startswith("tt.descriptor")
        compiled_as = [] if by_tma else _operations(touch, touches, known)
        for case in alike(touch, programs) if by_tma or compiled_as else ():
            if by_tma and touch.kind == "read":  # boxes come whole, what lies outside the tensor as zeros
                total.tma_read_bytes += case.times * case.addresses.size * touch.element_bytes
            elif by_tma:
                total.tma_write_bytes += case.times * boxes(case.addresses, case.mask, touch.element_bytes)
            for access in compiled_as:
                sectors, bytes_ = touched(case.addresses, case.mask, access, touch.element_bytes)
                if touch.kind == "read":
                    total.read_sectors += case.times * sectors
                    total.read_bytes += case.times * bytes_
                else:
                    total.write_sectors += case.times * sectors
                    total.write_bytes += case.times * bytes_
    return total


def _operations(touch: Touch, touches: Sequence[Touch], known: Sequence[Access]) -> list[Access]:
    """How it was compiled: once for each layout that its result is wanted in, not at all where nobody wants it.

    Raises `ValueError` where several accesses of a line are compiled in several ways: whose is which cannot be told.
    """
    key = _place(touch)
    here = [one for one in known if (one.kind, one.line, prod(one.shape)) == key]
    ways = list(dict.fromkeys(here))
    if len(ways) > 1 and sum(_place(other) == key for other in touches) > 1:
        raise ValueError(f"line {key[1]}: {key[0]}s compiled in several ways")
    return ways


def _place(touch: Touch) -> tuple[str, int, int]:
    return touch.kind, int(touch.frames[0].rpartition(":")[2]), prod(touch.shape)
