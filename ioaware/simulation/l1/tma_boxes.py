"""Count what TMA copies request beside the sectors of their elements.

A load fetches whole boxes: elements outside the tensor are zeros, and counted. A store writes rows of at most 128 bytes, each
with the sectors in which it begins and ends. Counters of an H200 agree with both to the byte (`l1_requests`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from ioaware.analysis.formulas.evaluate import OutsideFormulaError
from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.accesses.kernel_traffic import KernelTraffic
from ioaware.analysis.ir.loops.access_totals import Programs
from ioaware.analysis.ir.sectors.execution_classes import execution_classes
from ioaware.derivation.derived import Derived
from ioaware.derivation.l1_requests import BY_TMA, tma_store_bytes
from ioaware.simulation.l1.access_bytes import access_bytes


@dataclass(frozen=True, slots=True)
class Boxes:
    """Bytes that TMA copies request beyond those of their sectors.

    They are negative where copies request fewer.
    """

    read_bytes: int = 0
    write_bytes: int = 0


def tma_boxes(touches: Sequence[Touch], programs: Programs, traffic: KernelTraffic, derived: Derived) -> Boxes:
    """Return what the TMA copies of a launch request beyond their sectors.

    It is nothing where data decide their places or how many there are, or where one place copies boxes of several shapes.
    """
    copies = [touch for touch in touches if touch.operation in BY_TMA]
    if not copies:
        return Boxes()
    try:
        loaded = _loaded(copies, traffic, derived)
        stored = sum(_stored(touch, programs) for touch in copies if touch.kind == "write")
        return Boxes(loaded - _sectors("read", traffic, derived), stored - _sectors("write", traffic, derived))
    except (OutsideFormulaError, KeyError, ValueError):
        return Boxes()


def _loaded(copies: Sequence[Touch], traffic: KernelTraffic, derived: Derived) -> int:
    """Return the bytes of the boxes that are loaded.

    Raises `ValueError` where one place loads boxes of several shapes.
    """
    shapes = {(touch.operation, touch.frames): touch.shape for touch in copies}
    if any(touch.shape != shapes[touch.operation, touch.frames] for touch in copies):
        raise ValueError("boxes of several shapes are loaded at one place")
    loads = [access for access in traffic.accesses if access.kind == "read" and access.operation in BY_TMA]
    return sum(
        cast(int, one.executions.evaluate(derived.values)) * prod(shapes[one.operation, one.frames]) * one.element_bytes
        for one in loads
    )


def _stored(touch: Touch, programs: Programs) -> int:
    classes = execution_classes(touch, programs)
    return sum(one.times * tma_store_bytes(one.addresses, one.mask, touch.element_bytes) for one in classes)


def _sectors(kind: str, traffic: KernelTraffic, derived: Derived) -> int:
    """Return the bytes of the copies' sectors, each once.

    Raises `ValueError` where they are unknown.
    """
    copies = [access for access in traffic.accesses if access.kind == kind and access.operation in BY_TMA]
    sizes = [access_bytes(access, derived) for access in copies]
    if None in sizes:
        raise ValueError("data decide how many bytes are copied")
    return sum(size or 0 for size in sizes)
