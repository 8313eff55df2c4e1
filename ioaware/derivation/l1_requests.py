"""Count L1 sector and byte requests of a compiled kernel.

They are counted as Nsight Compute counts them.

`derive` counts each sector of a tile access once. A warp requests the sectors of each instruction, which may be more. Unaligned
rows split into narrow instructions, instructions or warps share a sector, and all warps may load one scalar. L1 hits are not
predicted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray
from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.loops.access_totals import Programs
from ioaware.analysis.ir.sectors.execution_classes import execution_classes
from ioaware.compilation.compiled_accesses import Access, accesses
from ioaware.compilation.instructions.narrow_stores import TMA_ROW_BYTES
from ioaware.compilation.instructions.wide_copies import LINE_BYTES, copied_sectors
from ioaware.compilation.launch_traffic import launch_touches
from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.layouts import Indices, distinct_in_rows, owners, requests
from ioaware.compilation.triton_ir import compiled
from ioaware.machine.model import SECTOR_BYTES
from ioaware.measurement.counters import l1_counters as l1

BY_TMA = frozenset(
    {
        *("tt.descriptor_load", "tt.descriptor_store"),
        *("ttng.async_tma_copy_global_to_local", "ttng.async_tma_copy_local_to_global"),
    }
)
BY_WARPS = frozenset({"tt.load", "tt.store", "ttg.async_copy_global_to_local"})
Mask = NDArray[np.bool_]


@dataclass(slots=True)
class L1Requests:
    """Requests of a launch.

    They are sectors and bytes of loads and stores, and bytes of TMA copies. Copies past the L1 fetch `refetched_sectors` more
    sectors than they request.
    """

    read_sectors: int = 0
    read_bytes: int = 0
    write_sectors: int = 0
    write_bytes: int = 0
    tma_read_bytes: int = 0
    tma_write_bytes: int = 0
    refetched_sectors: int = 0

    def counters(self) -> dict[str, int]:
        """Return the requests by Nsight Compute's names.

        Asynchronous copies count as loads.
        """
        again = {l1.REFETCHED: self.refetched_sectors} if self.refetched_sectors else {}
        return {
            l1.READ_SECTORS: self.read_sectors,
            l1.WRITE_SECTORS: self.write_sectors,
            l1.READ_DATA: self.read_bytes,
            l1.WRITE_DATA: self.write_bytes,
            l1.TMA_READS: self.tma_read_bytes,
            l1.TMA_WRITES: self.tma_write_bytes,
            **again,
        }


@dataclass(frozen=True, slots=True)
class Instructions:
    """What the instructions of one execution of an access request.

    They request sectors and distinct bytes, and fetch `again` more sectors.
    """

    sectors: int
    bytes: int
    again: int = 0


def instruction_sectors(addresses: Indices, mask: Mask, access: Access, element_bytes: int) -> Instructions:
    """Return the requests of one execution of an access.

    Tile `addresses` are in bytes.
    """
    if access.layout is None:
        times = int(mask.all()) * (1 if access.once else access.warps)
        return Instructions(times, times * element_bytes)
    chosen = requests(access.layout, access.shape, access.vector, access.once)
    active = mask.ravel()[chosen]
    if access.once:
        active &= np.repeat(owners(access.layout, access.shape), access.vector)
    elements = np.where(active, addresses.ravel()[chosen], -1)
    if element_bytes > 1 and (addresses % element_bytes).any():
        raise ValueError("an element may lie in two sectors")
    moved = distinct_in_rows(elements).size * element_bytes
    if access.past_l1:
        requested, again = copied_sectors(elements[:, :: access.vector])
        return Instructions(requested, moved, again)
    return Instructions(distinct_in_rows(np.where(active, elements // SECTOR_BYTES, -1)).size, moved)


def tma_store_bytes(addresses: Indices, mask: Mask, element_bytes: int) -> int:
    """Return sector bytes of a TMA store, in boxes of at most 128-byte rows.

    Addresses [rows, columns].
    """
    columns = TMA_ROW_BYTES // element_bytes
    split = addresses.reshape(-1, min(columns, addresses.shape[-1]))
    return SECTOR_BYTES * distinct_in_rows(np.where(mask.reshape(split.shape), split // SECTOR_BYTES, -1)).size


def l1_requests_of_launch(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> L1Requests:
    """Return the L1 requests of a captured launch at the given values.

    The launch is compiled for an NVIDIA GPU.

    Raises `ValueError` for addresses that depend on data and for unknown layouts.
    """
    if gpu.backend != "cuda":
        raise ValueError(f"only NVIDIA GPUs have these counters, not {gpu.backend}:{gpu.arch}")
    assembly = compiled(launch, values, gpu).asm
    touches, programs = launch_touches(launch, values, gpu)
    return count_l1_requests(touches, programs, accesses(assembly["ttgir"], assembly["ptx"]))


def count_l1_requests(touches: Sequence[Touch], programs: Programs, compiled_accesses: Sequence[Access]) -> L1Requests:
    """Add up the memory instructions of a launch.

    Raises `ValueError` for an ambiguous access.
    """
    total = L1Requests()
    plain = [touch for touch in touches if touch.kind != "atomic"]
    by_warps = [touch for touch in plain if not _by_tma(touch)]
    for touch in filter(_by_tma, plain):
        for case in execution_classes(touch, programs):
            if touch.kind == "read":  # whole boxes are counted: elements outside the tensor read as zeros
                total.tma_read_bytes += case.times * case.addresses.size * touch.element_bytes
            else:
                total.tma_write_bytes += case.times * tma_store_bytes(case.addresses, case.mask, touch.element_bytes)
    for touch, ways in zip(by_warps, _match(by_warps, compiled_accesses), strict=True):
        unit_bytes = LINE_BYTES if any(access.past_l1 for access in ways) else SECTOR_BYTES
        for case in execution_classes(touch, programs, unit_bytes) if ways else ():
            for access in ways:
                made = instruction_sectors(case.addresses, case.mask, access, touch.element_bytes)
                if touch.kind == "read":
                    total.read_sectors += case.times * made.sectors
                    total.read_bytes += case.times * made.bytes
                    total.refetched_sectors += case.times * made.again
                else:
                    total.write_sectors += case.times * made.sectors
                    total.write_bytes += case.times * made.bytes
    return total


def _by_tma(touch: Touch) -> bool:
    """Return whether the operation is a TMA copy.

    Raises `ValueError` for an operation without a rule.
    """
    if touch.operation not in (*BY_TMA, *BY_WARPS):
        raise ValueError(f"no rule for {touch.operation}")
    return touch.operation in BY_TMA


def _match(touches: Sequence[Touch], compiled_accesses: Sequence[Access]) -> list[list[Access]]:
    """Match each memory instruction to its compiled forms.

    There is one per layout of its result, none if it is dead.

    Raises `ValueError` where several accesses of a line have several forms, or where a seemingly dead one may have moved. So it
    does where an access has several forms in branches that exclude each other.
    """
    places = [_Place(touch.kind, prod(touch.shape), _files(touch.frames)) for touch in touches]
    standing = [(_Place(one.kind, prod(one.shape), _files(one.frames)), replace(one, frames=())) for one in compiled_accesses]
    elsewhere = {(where.kind, where.size) for where, _ in standing if not any(map(where.may_be, places))}
    matches: list[list[Access]] = []
    for place in places:
        here = [(where, one) for where, one in standing if where == place] or [
            (where, one) for where, one in standing if where.may_be(place)
        ]
        ways = list(dict.fromkeys(replace(one, arms=()) for _, one in here))
        line = place.frames[0].rpartition(":")[2] if place.frames else "unknown"
        if len(ways) > 1 and any(one.excludes(other) for (_, one), (_, other) in combinations(here, 2)):
            raise ValueError(f"line {line}: {place.kind}s compiled in several ways, in branches of which one runs")
        if len(ways) > 1 and sum(any(where.may_be(other) for where, _ in here) for other in places) > 1:
            raise ValueError(f"line {line}: {place.kind}s compiled in several ways")
        if not ways and (place.kind, place.size) in elsewhere:
            raise ValueError(
                f"line {line}: no {place.kind} of {place.size} elements was compiled from it, but one from another line was"
            )
        matches.append(ways)
    return matches


@dataclass(frozen=True, slots=True)
class _Place:
    """An access: its kind, its size, its source line and callers."""

    kind: str
    size: int
    frames: tuple[str, ...]

    def may_be(self, other: _Place) -> bool:
        """Return whether two accesses may be the same, by the callers that both have.

        A Gluon kernel's IR has none.
        """
        depth = min(len(self.frames), len(other.frames))
        return (self.kind, self.size, self.frames[:depth]) == (other.kind, other.size, other.frames[:depth])


def _files(frames: tuple[str, ...]) -> tuple[str, ...]:
    """Return the frames without folders.

    Triton's cache may hold a kernel compiled from another path.
    """
    return tuple(frame.rpartition("/")[2] for frame in frames)
