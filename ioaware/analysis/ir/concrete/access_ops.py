"""Count and follow accesses to global memory at given addresses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ioaware.analysis.ir.concrete.descriptor_ops import counting, descriptor_block, descriptor_rows, make_descriptor
from ioaware.analysis.ir.concrete.interpreter_state import Handler, Opaque, Run, Value, integer_type
from ioaware.analysis.ir.concrete.tally import Array, UndecidedError, UnsupportedOperationError
from ioaware.analysis.ir.mlir.parser import Operation, split_top
from ioaware.analysis.ir.mlir.types import Type, parse_type, result_types


def _addptr(run: Run, operation: Operation) -> None:
    pointer, offset = run.operands(operation)
    kind = result_types(split_top(operation.types)[0])[0]
    known = isinstance(pointer, np.ndarray) and isinstance(offset, np.ndarray)
    run.set(operation, pointer + offset.astype(np.int64) * kind.element_bytes if known else Opaque(kind.shape))  # type: ignore[operator, union-attr]


def _load(run: Run, operation: Operation) -> None:
    pointer, *rest = run.operands(operation)
    mask, kind = _mask(run, operation, rest[:1]), _pointee(operation)
    if not isinstance(pointer, np.ndarray):
        run.access_somewhere("read", mask, kind.element_bytes)
        run.opaque(operation)
        return
    run.access("read", pointer, mask, kind.element_bytes, operation)
    number = integer_type(kind)
    found = None if number is None else run.memory.load(pointer, mask, number)
    if found is None:
        run.set(operation, Opaque(pointer.shape))
    elif len(rest) > 1:
        other = rest[1]
        run.set(operation, np.where(mask, found, other) if isinstance(other, np.ndarray) else Opaque(pointer.shape))
    else:
        run.set(operation, found)


def _mask(run: Run, operation: Operation, given: Sequence[Value]) -> Array:
    """Return the active lanes of an access through pointers."""
    return np.broadcast_to(run.array(given[0], operation) if given else np.array(True), _pointee(operation).shape)


def _pointee(operation: Operation) -> Type:
    kind = parse_type(split_top(operation.types)[0])
    return Type(kind.shape, kind.pointee)


def _store(run: Run, operation: Operation) -> None:
    pointer, value, *rest = run.operands(operation)
    mask, kind = _mask(run, operation, rest[:1]), _pointee(operation)
    if not isinstance(pointer, np.ndarray):
        run.access_somewhere("write", mask, kind.element_bytes)
        return
    run.access("write", pointer, mask, kind.element_bytes, operation)
    number = integer_type(kind)
    known = number is not None and isinstance(value, np.ndarray)
    run.memory.store(pointer, mask, value.astype(number) if known else None, number)  # type: ignore[union-attr]


UPDATES: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "max": max, "min": min, "exch": lambda _, b: b, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "umax": max, "umin": min,
}  # fmt: skip


def _atomic(run: Run, operation: Operation) -> None:
    pointer, *rest = run.operands(operation)
    masked = [value for value in rest[1:] if isinstance(value, np.ndarray) and value.dtype == bool]
    if len(rest) > 1 and not masked:
        raise UndecidedError(run.line(operation))
    shape: tuple[int, ...] = getattr(pointer, "shape", ())
    mask = np.broadcast_to(masked[-1] if masked else np.array(True), shape)
    kind = Type(shape, re.findall(r"!tt\.ptr<(\w+)", operation.types)[0])
    if not isinstance(pointer, np.ndarray):
        run.access_somewhere("atomic", mask, kind.element_bytes)
        run.set(operation, *[Opaque(shape)][: len(operation.results)])
        return
    addresses = pointer
    run.access("atomic", addresses, mask, kind.element_bytes, operation)
    number, how = integer_type(kind), re.match(r"\s*(\w+)", operation.text)
    update = UPDATES.get(how[1]) if how else None
    value = rest[0]
    old = None if number is None else np.zeros(addresses.shape, number)
    for place in map(tuple, np.argwhere(mask)):
        before = None if number is None else run.memory.load(addresses[place][None], np.array([True]), number)
        if number is None or old is None or before is None or update is None or not isinstance(value, np.ndarray):
            run.memory.forget(addresses[mask])
            old = None
            break
        old[place] = before[0]
        new = np.array([update(int(before[0]), int(np.broadcast_to(value, addresses.shape)[place]))]).astype(number)
        run.memory.store(addresses[place][None], np.array([True]), new, number)
    if operation.results:
        run.set(operation, Opaque(addresses.shape) if old is None else old)


def _compare_and_swap(run: Run, operation: Operation) -> None:
    pointer, expected, new = run.operands(operation)
    addresses = run.array(pointer, operation)
    kind = Type(addresses.shape, re.findall(r"!tt\.ptr<(\w+)", operation.types)[0])
    everywhere = np.ones(addresses.shape, bool)
    run.access("atomic", addresses, everywhere, kind.element_bytes, operation)
    number = integer_type(kind)
    found = None if number is None else run.memory.load(addresses, everywhere, number)
    if number is None or found is None or not isinstance(expected, np.ndarray) or not isinstance(new, np.ndarray):
        run.set(operation, Opaque(addresses.shape))
        return
    run.memory.store(addresses, found == expected, np.broadcast_to(new, addresses.shape), number)
    run.set(operation, found)


GLOBAL_ACCESS = re.compile(r"\b(ld|st|red|atom)\.((?:[A-Za-z][\w:]*\.)*?)(?:v([248])\.)?[a-z]+(\d+)\b")
"""PTX's instructions on memory.

Each has a kind, state space and modifiers, the vector's width, and the bits of an element.
"""


def _assembly(run: Run, operation: Operation) -> None:
    """Count one PTX instruction on global memory, each lane's element for itself.

    Other assembly is not computed.
    """
    text = re.sub(r"\\[0-9A-Fa-f]{2}", " ", operation.text)  # a line's end is printed as \0A
    found = [match for match in GLOBAL_ACCESS.finditer(text) if "shared" not in match[2]]
    if len(found) > 1:
        raise UnsupportedOperationError(operation.name)
    for match in found:
        addresses = run.array(run.operands(operation)[0], operation)
        packed = re.search(r"packed_element = (\d+)", operation.text)
        if addresses.dtype != np.int64 or int(match[3] or 1) != int(packed[1] if packed else 1):
            raise UnsupportedOperationError(operation.name)
        kind = {"ld": "read", "st": "write"}.get(match[1], "atomic")
        run.access(kind, addresses, np.ones(addresses.shape, bool), int(match[4]) // 8, operation)
    types = operation.types or operation.text.rsplit("->", 1)[-1]
    run.set(operation, *(Opaque(kind.shape) for kind in result_types(types)[: len(operation.results)]))


HANDLERS: Mapping[str, Handler] = {
    "tt.addptr": _addptr, "tt.load": _load, "tt.store": _store, "tt.atomic_rmw": _atomic, "tt.atomic_cas": _compare_and_swap,
    "tt.elementwise_inline_asm": _assembly,
    "tt.make_tensor_descriptor": make_descriptor, "tt.descriptor_load": counting(descriptor_block, "read"),
    "tt.descriptor_store": counting(descriptor_block, "write"), "tt.descriptor_reduce": counting(descriptor_block, "atomic"),
    "tt.descriptor_gather": counting(descriptor_rows, "read"), "tt.descriptor_scatter": counting(descriptor_rows, "write"),
}  # fmt: skip
