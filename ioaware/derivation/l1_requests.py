"""What a kernel's warps ask of their L1, as counters of a GPU see it: from the layouts and widths it was compiled with.

`derive` counts the sectors of an access of a whole tile once. A warp asks for the sectors of each of its instructions: more,
where a row that is not aligned splits into narrow accesses, where several instructions or warps share a sector, where every
warp loads the same scalar. What the L1 then has is left open: this is what it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray
from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.loops.access_totals import Programs
from ioaware.analysis.ir.sectors.execution_classes import alike
from ioaware.compilation.compiled_accesses import Access, accesses
from ioaware.compilation.launch_traffic import launch_touches
from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.layouts import Indices, requests
from ioaware.compilation.triton_ir import compiled
from ioaware.measurement import l1_counters as l1
from ioaware.sectors import SECTOR_BYTES

TMA_ROW_BYTES = 128
"""The widest row of a box in shared memory: a wider tile is copied in several."""
BY_TMA = frozenset(
    {
        *("tt.descriptor_load", "tt.descriptor_store"),
        *("ttng.async_tma_copy_global_to_local", "ttng.async_tma_copy_local_to_global"),
    }
)
BY_WARPS = frozenset({"tt.load", "tt.store", "ttg.async_copy_global_to_local"})
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

    def counters(self) -> dict[str, int]:
        """By the names under which Nsight Compute counts them; bytes of loads and of asynchronous copies are one here."""
        return {
            l1.READ_SECTORS: self.read_sectors,
            l1.WRITE_SECTORS: self.write_sectors,
            l1.READ_DATA: self.read_bytes,
            l1.WRITE_DATA: self.write_bytes,
            l1.TMA_READS: self.tma_read_bytes,
            l1.TMA_WRITES: self.tma_write_bytes,
        }


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
    if gpu.backend != "cuda":
        raise ValueError(f"only NVIDIA's GPUs have these counters, not {gpu.backend}:{gpu.arch}")
    assembly = compiled(launch, values, gpu).asm
    touches, programs = launch_touches(launch, values, gpu)
    return asked(touches, programs, accesses(assembly["ttgir"], assembly["ptx"]))


def asked(touches: Sequence[Touch], programs: Programs, known: Sequence[Access]) -> Asked:
    """The touches of a launch together. Raises `ValueError` where there is no telling."""
    total = Asked()
    plain = [touch for touch in touches if touch.kind != "atomic"]
    by_warps = [touch for touch in plain if not _by_tma(touch)]
    for touch in filter(_by_tma, plain):
        for case in alike(touch, programs):
            if touch.kind == "read":  # boxes come whole, what lies outside the tensor as zeros
                total.tma_read_bytes += case.times * case.addresses.size * touch.element_bytes
            else:
                total.tma_write_bytes += case.times * boxes(case.addresses, case.mask, touch.element_bytes)
    for touch, ways in zip(by_warps, _matched(by_warps, known), strict=True):
        for case in alike(touch, programs) if ways else ():
            for access in ways:
                sectors, bytes_ = touched(case.addresses, case.mask, access, touch.element_bytes)
                if touch.kind == "read":
                    total.read_sectors += case.times * sectors
                    total.read_bytes += case.times * bytes_
                else:
                    total.write_sectors += case.times * sectors
                    total.write_bytes += case.times * bytes_
    return total


def _by_tma(touch: Touch) -> bool:
    """Whether it is a copy of boxes. Raises `ValueError` for an operation of which nobody here knows what it asks for."""
    if touch.operation not in (*BY_TMA, *BY_WARPS):
        raise ValueError(f"no rule for {touch.operation}")
    return touch.operation in BY_TMA


def _matched(touches: Sequence[Touch], known: Sequence[Access]) -> list[list[Access]]:
    """How each touch was compiled: once for each layout that its result is wanted in, not at all where nobody wants it.

    Raises `ValueError` where several accesses of a line are compiled in several ways, so that whose is which cannot be told, or
    where one that seems dropped may be one that stands elsewhere.
    """
    places = [_Place(touch.kind, prod(touch.shape), _files(touch.frames)) for touch in touches]
    standing = [(_Place(one.kind, prod(one.shape), _files(one.frames)), replace(one, frames=())) for one in known]
    elsewhere = {(where.kind, where.size) for where, _ in standing if not any(map(where.may_be, places))}
    found: list[list[Access]] = []
    for place in places:
        here = [(where, one) for where, one in standing if where == place] or [
            (where, one) for where, one in standing if where.may_be(place)
        ]
        ways = list(dict.fromkeys(one for _, one in here))
        line = place.frames[0].rpartition(":")[2] if place.frames else "unknown"
        if len(ways) > 1 and sum(any(where.may_be(other) for where, _ in here) for other in places) > 1:
            raise ValueError(f"line {line}: {place.kind}s compiled in several ways")
        if not ways and (place.kind, place.size) in elsewhere:
            raise ValueError(
                f"line {line}: no {place.kind} of {place.size} elements was compiled from there, and others from elsewhere"
            )
        found.append(ways)
    return found


@dataclass(frozen=True, slots=True)
class _Place:
    """What an access does and where it stands, its callers behind it."""

    kind: str
    size: int
    frames: tuple[str, ...]

    def may_be(self, other: _Place) -> bool:
        """The same as far as both say who called; a Gluon kernel's IR does not."""
        depth = min(len(self.frames), len(other.frames))
        return (self.kind, self.size, self.frames[:depth]) == (other.kind, other.size, other.frames[:depth])


def _files(frames: tuple[str, ...]) -> tuple[str, ...]:
    """Without folders: Triton's cache has a kernel as it was compiled first, maybe from another checkout."""
    return tuple(frame.rpartition("/")[2] for frame in frames)
