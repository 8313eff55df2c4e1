"""The traffic of a kernel as plain data and back, formulas included, to be kept on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sympy import Expr

from ioaware import disk_cache
from ioaware.analysis.formulas.serialise import UnknownKindError, from_nodes, to_nodes
from ioaware.analysis.ir import Access, Argument, Count, Descriptor, KernelTraffic, Pointer

PLAIN = (str, int, bool, float, type(None))


def name_of(text: str, arguments: Sequence[Argument], grid: Sequence[Expr], known: tuple[Any, ...]) -> str | None:
    """The name of the traffic that follows from a kernel's IR, its arguments, its grid and what is known of the parameters;
    None where an argument has no name."""
    told: list[str] = []
    exprs: list[Expr] = []

    def tell(value: Any) -> None:
        if isinstance(value, Expr):
            told.append(f"formula {len(exprs)}")
            exprs.append(value)
        elif isinstance(value, (tuple, list)):
            told.append(f"{len(value)} of")  # pyright: ignore[reportUnknownArgumentType]
            for item in value:  # pyright: ignore[reportUnknownVariableType]
                tell(item)
        elif isinstance(value, PLAIN):
            told.append(repr(value))
        else:
            raise UnknownKindError(type(value).__name__)  # pyright: ignore[reportUnknownArgumentType]

    try:
        for argument in arguments:
            if isinstance(argument, Pointer):
                tell(("pointer", argument.name, argument.tensor, argument.offset_bytes))
            elif isinstance(argument, Descriptor):
                tell(("descriptor", argument.name, argument.shape, argument.strides, argument.tensor))
            else:
                tell(("scalar", argument.name, argument.value))
        tell((tuple(grid), tuple(known)))
        nodes, places = to_nodes(exprs)
    except UnknownKindError:
        return None
    return disk_cache.cache_key(("traffic", disk_cache.own_code(), text, *told, repr(nodes), repr(places)))


def find(name: str) -> KernelTraffic | None:
    """The traffic that is kept by this name, if any is."""
    data = disk_cache.load(name)
    try:
        return None if data is None else _from_data(data)
    except (UnknownKindError, TypeError, KeyError, IndexError, ValueError):
        return None


def keep(name: str, kernel: KernelTraffic) -> None:
    """Keeps it, unless a formula of it is of a kind that does not come back as it was."""
    counts = [count for access in kernel.accesses for count in (access.elements, access.executions, access.sectors)]
    counts += [kernel.read_bytes, kernel.write_bytes, kernel.atomic_bytes, kernel.flops]
    counts += [kernel.read_sector_bytes, kernel.write_sector_bytes]
    try:
        nodes, places = to_nodes(count.expr for count in counts if count)
    except UnknownKindError:
        return
    at = iter(places)
    data = {
        "nodes": nodes,
        "counts": [next(at) if count else None for count in counts],
        "accesses": [
            [a.kind, a.operation, a.tensor, a.element_bytes, a.frames, a.exact, a.sectors_exact, a.notes]
            for a in kernel.accesses
        ],
        "kernel": [kernel.kernel, kernel.exact, kernel.sectors_exact, kernel.notes],
    }
    if _from_data(json.loads(json.dumps(data))) == kernel:
        disk_cache.store(name, data)


def _from_data(data: Any) -> KernelTraffic:
    made = from_nodes(data["nodes"])
    counts = iter([None if place is None else Count(made[place]) for place in data["counts"]])
    accesses: list[Access] = []
    for kind, operation, tensor, element_bytes, frames, exact, sectors_exact, notes in data["accesses"]:
        elements, executions, sectors = next(counts), next(counts), next(counts)
        told: Any = (elements, element_bytes, executions, sectors, tuple(frames), exact, sectors_exact, tuple(notes))
        accesses.append(Access(kind, operation, tensor, *told))
    name, exact, sectors_exact, notes = data["kernel"]
    reads, writes, atomics, flops, read_sectors, write_sectors = counts
    totals: Any = (reads, writes, atomics, read_sectors, write_sectors, flops, exact, sectors_exact, tuple(notes))
    return KernelTraffic(name, tuple(accesses), *totals)
