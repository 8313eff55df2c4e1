"""Serialise the traffic of a kernel, formulas included, for the disk cache."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sympy import Expr

from ioaware import disk_cache
from ioaware.analysis.formulas.serialise import UnknownKindError, from_nodes, to_nodes
from ioaware.analysis.ir import Access, Argument, Count, Descriptor, KernelTraffic, Limit, Pointer

PLAIN = (str, int, bool, float, type(None))


def name_of(text: str, arguments: Sequence[Argument], grid: Sequence[Expr], facts: tuple[Any, ...]) -> str | None:
    """Return the cache key of a kernel's IR, arguments, grid and facts.

    None where a value cannot be part of a key.
    """
    parts: list[str] = []
    exprs: list[Expr] = []

    def add(value: Any) -> None:
        if isinstance(value, Expr):
            parts.append(f"formula {len(exprs)}")
            exprs.append(value)
        elif isinstance(value, (tuple, list)):
            parts.append(f"{len(value)} of")  # pyright: ignore[reportUnknownArgumentType]
            for item in value:  # pyright: ignore[reportUnknownVariableType]
                add(item)
        elif isinstance(value, PLAIN):
            parts.append(repr(value))
        else:
            raise UnknownKindError(type(value).__name__)  # pyright: ignore[reportUnknownArgumentType]

    try:
        for argument in arguments:
            if isinstance(argument, Pointer):
                add(("pointer", argument.name, argument.tensor, argument.offset_bytes, argument.memory))
                add((argument.size_bytes, argument.elements))
            elif isinstance(argument, Descriptor):
                add(("descriptor", argument.name, argument.shape, argument.strides, argument.tensor, argument.memory))
            else:
                add(("scalar", argument.name, argument.value))
        add((tuple(grid), tuple(facts)))
        nodes, places = to_nodes(exprs)
    except UnknownKindError:
        return None
    return disk_cache.cache_key(("traffic", disk_cache.own_code(), text, *parts, repr(nodes), repr(places)))


def find(name: str) -> KernelTraffic | None:
    """Return the cached traffic of this key, or None."""
    data = disk_cache.load(name)
    try:
        return None if data is None else _from_data(data)
    except (UnknownKindError, TypeError, KeyError, IndexError, ValueError):
        return None


def keep(name: str, kernel: KernelTraffic) -> None:
    """Store the traffic, unless a formula does not survive the round trip."""
    counts = [count for access in kernel.accesses for count in (access.elements, access.executions, access.sectors)]
    counts += [kernel.read_bytes, kernel.write_bytes, kernel.atomic_bytes, kernel.flops]
    counts += [kernel.read_sector_bytes, kernel.write_sector_bytes]
    counts += [limit.value for limit in kernel.limits]
    try:
        nodes, places = to_nodes(count.expr for count in counts if count)
    except UnknownKindError:
        return
    at = iter(places)
    data = {
        "nodes": nodes,
        "counts": [(next(at), count.at_most) if count else None for count in counts],
        "accesses": [
            [a.kind, a.operation, a.tensor, a.element_bytes, a.frames, a.exact, a.sectors_exact, a.notes, a.beyond]
            for a in kernel.accesses
        ],
        "kernel": [kernel.kernel, kernel.exact, kernel.sectors_exact, kernel.notes, kernel.matmul_types],
        "limits": [[limit.most, limit.reason] for limit in kernel.limits],
    }
    if _from_data(json.loads(json.dumps(data))) == kernel:
        disk_cache.store(name, data)


def _from_data(data: Any) -> KernelTraffic:
    made = from_nodes(data["nodes"])
    counts = iter([None if count is None else Count(made[count[0]], count[1]) for count in data["counts"]])
    accesses: list[Access] = []
    for kind, operation, tensor, element_bytes, frames, exact, sectors_exact, notes, beyond in data["accesses"]:
        elements, executions, sectors = next(counts), next(counts), next(counts)
        rest: Any = (elements, element_bytes, executions, sectors, tuple(frames), exact, sectors_exact, tuple(notes), beyond)
        accesses.append(Access(kind, operation, tensor, *rest))
    name, exact, sectors_exact, notes, types = data["kernel"]
    reads, writes, atomics, flops, read_sectors, write_sectors, *values = counts
    pairs: Any = zip(values, data["limits"], strict=True)
    limits = tuple(Limit(value, most, reason) for value, (most, reason) in pairs)
    totals: Any = (
        reads,
        writes,
        atomics,
        read_sectors,
        write_sectors,
        flops,
        exact,
        sectors_exact,
        tuple(notes),
        limits,
        tuple(types),
    )
    return KernelTraffic(name, tuple(accesses), *totals)
