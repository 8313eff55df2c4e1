"""Interpret memory operations and matrix products.

The memory operations are through pointers and tensor descriptors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

from ioaware.analysis.ir.accesses.kernel_traffic import AccessKind
from ioaware.analysis.ir.accesses.values import Target, TensorDescriptor, Value, lane, lanes
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Poly, Unknown, poly
from ioaware.analysis.ir.algebra.predicates import at_least_zero
from ioaware.analysis.ir.interpreter.symbolic_interpreter import Handler, Interpreter, short
from ioaware.analysis.ir.mlir.parser import Operation, split_top
from ioaware.analysis.ir.mlir.types import Type, parse_type, result_types

FROM_MEMORY = "it is loaded from memory"
LONGEST_ARGUMENTS = 2000
"""Most characters of an address in the name of a loaded value.

A longer one (pointers chased many times) is named by its line.
"""
NOT_FOLLOWED = "it is computed by operations without a rule"


def touch(walk: Interpreter, operation: Operation, kind: AccessKind, pointer: Value, mask: Value | None) -> None:
    """Record an access through pointers."""
    number = ONE if mask is None else mask.number
    if number is None:
        args = [*walk.surroundings(), *walk.lanes(pointer.type)]
        name = f"mask@{short(walk.where(operation))}"
        number = poly(Unknown(name, NOT_FOLLOWED, args, truth=True, source=walk.identity(operation)))
    for target in pointer.targets:
        walk.record.touch(
            kind, operation.name, target, pointer.type.shape, pointer.type.element_bytes, number, walk.frames(operation)
        )


def _loaded(walk: Interpreter, operation: Operation, pointer: Value, masks: Sequence[Value] | None) -> None:
    """Bind the result of reading memory; integers become unknowns.

    `masks` are the mask and the value of masked-off lanes. They are None if no two executions read the same.
    """
    kind = pointer.type.of(pointer.type.pointee)
    if operation.results:
        walk.bind(operation.results, [_from_memory(walk, operation, kind, pointer.targets, masks)])


def _from_memory(
    walk: Interpreter, operation: Operation, kind: Type, targets: Sequence[Target], masks: Sequence[Value] | None
) -> Value:
    """Return an unknown named by the tensor it is loaded from and the line.

    If nothing writes to the tensor, it is a function of offset and mask: equal ones are equal values. Otherwise each operation
    reads another value in each execution.
    """
    if not kind.is_integer and not kind.is_pointer:
        return Value(kind)
    arguments = [target.argument for target in targets]
    walk.loaded.update(arguments)
    numbers = None if masks is None else [value.number for value in masks]
    steady = bool(arguments) and walk.pointers.issuperset(arguments) and walk.mutable.isdisjoint(arguments)
    args, source = [*walk.surroundings(), *walk.lanes(kind)], walk.identity(operation)
    if steady and numbers is not None and None not in numbers:
        offsets = [t.offset * Fraction(1, kind.element_bytes) for t in targets]
        found = [*offsets, *(t.condition for t in targets), *(number for number in numbers if number is not None)]
        if sum(len(arg.key) for arg in found) <= LONGEST_ARGUMENTS:
            args, source = found, f"{kind.element} {' '.join(arguments)}"
    base = arguments[0].lstrip("%").partition("@")[0] if arguments else ""
    name = f"{base or 'memory'}@{short(walk.where(operation))}"  # an address that is computed has no name
    if kind.is_pointer:
        return Value(kind, None, (Target(name, ZERO),))
    return Value(kind, poly(Unknown(name, FROM_MEMORY, args, kind.element == "i1", source)))


def _load(walk: Interpreter, operation: Operation) -> None:
    pointer, *rest = walk.operands(operation)
    touch(walk, operation, "read", pointer, rest[0] if rest else None)
    _loaded(walk, operation, pointer, rest)


def _store(walk: Interpreter, operation: Operation) -> None:
    pointer, _, *mask = walk.operands(operation)
    touch(walk, operation, "write", pointer, mask[0] if mask else None)


def _atomic(walk: Interpreter, operation: Operation) -> None:
    """Record `atomic_rmw pointer, value[, mask]` and the atomics of Triton 3.9.

    The latter have their mask in the i1 operand.
    """
    pointer, *rest = walk.operands(operation)
    masks = [value for value in rest if value.type.element == "i1"]
    touch(walk, operation, "atomic", pointer, masks[-1] if masks else None)
    _loaded(walk, operation, pointer, None)


def _compare_and_swap(walk: Interpreter, operation: Operation) -> None:
    pointer, *_ = walk.operands(operation)
    touch(walk, operation, "atomic", pointer, None)
    _loaded(walk, operation, pointer, None)


def _make_descriptor(walk: Interpreter, operation: Operation) -> None:
    """Interpret `%base, [shape], [strides] : <f32>, <tensor<16x16xf32>>`."""
    pointer, shape, strides = split_top(operation.head)[:3]
    sizes = [_numbers(walk, operation, text) for text in (shape, strides)]
    block = parse_type(split_top(operation.types)[-1].removeprefix("!tt.tensordesc"))
    target = walk.value(pointer).targets[0]
    made = TensorDescriptor(target, tuple(sizes[0]), tuple(sizes[1]), block)
    walk.values[operation.results[0]] = Value(block, None, (target,), made)


def _numbers(walk: Interpreter, operation: Operation, text: str) -> list[Poly]:
    values = [walk.value(name).number for name in re.findall(r"%[\w.$#-]+", text)]
    if any(value is None for value in values):
        raise walk.unsupported(operation, "a size or coordinate that is not a number")
    return [value for value in values if value is not None]


def descriptor_access(walk: Interpreter, operation: Operation, kind: AccessKind) -> None:
    """Record a block at `%descriptor[%i, %j]`.

    Lanes outside the tensor are not accessed.
    """
    found = re.search(r"(%[\w.$#-]+)\[(.*?)\]", operation.head)
    descriptor = walk.value(found[1]).descriptor if found else None
    if found is None or descriptor is None:
        raise walk.unsupported(operation, "a descriptor that is not followed")
    starts = _numbers(walk, operation, found[2])
    shape = descriptor.block.shape
    coordinates = [start + index for start, index in zip(starts, lanes(shape), strict=True)]
    target, mask = _touch_block(walk, operation, kind, descriptor, coordinates, shape)
    if operation.results:
        result = result_types(operation.types)[0]
        inside = Value(result.of("i1"), mask)
        walk.bind(operation.results, [_from_memory(walk, operation, result, (target,), (inside,))])


def _touch_block(
    walk: Interpreter,
    operation: Operation,
    kind: AccessKind,
    descriptor: TensorDescriptor,
    coordinates: Sequence[Poly],
    shape: tuple[int, ...],
) -> tuple[Target, Poly]:
    """Record the lanes of a block that lie inside the tensor.

    Return their offsets and mask.
    """
    width = descriptor.block.element_bytes
    mask, offset = ONE, descriptor.target.offset
    for at, size, stride in zip(coordinates, descriptor.shape, descriptor.strides, strict=True):
        mask = mask * at_least_zero(at) * at_least_zero(size - 1 - at)
        offset = offset + at * stride * width
    target = replace(descriptor.target, offset=offset)
    walk.record.touch(kind, operation.name, target, shape, width, mask, walk.frames(operation))
    return target, mask


def descriptor_rows(walk: Interpreter, operation: Operation, kind: AccessKind) -> None:
    """Record a gather or scatter: rows from an index tensor, a block of columns.

    The rows are assumed inside.
    """
    found = re.search(r"(%[\w.$#-]+)\[(%[\w.$#-]+), (%[\w.$#-]+)\]", operation.head)
    descriptor = walk.value(found[1]).descriptor if found else None
    if found is None or descriptor is None:
        raise walk.unsupported(operation, "a descriptor that is not followed")
    rows, start = walk.value(found[2]), _numbers(walk, operation, found[3])[0]
    shape = (rows.type.shape[0], descriptor.block.shape[-1])
    column = start + lane(1, shape[1])
    row = rows.number if rows.number is not None else ZERO
    width = descriptor.block.element_bytes
    mask = at_least_zero(column) * at_least_zero(descriptor.shape[1] - 1 - column)
    if not any(isinstance(atom, Unknown) for atom in row.atoms):
        mask = mask * at_least_zero(row) * at_least_zero(descriptor.shape[0] - 1 - row)
    offset = descriptor.target.offset + (row * descriptor.strides[0] + column * descriptor.strides[1]) * width
    walk.record.touch(
        kind, operation.name, replace(descriptor.target, offset=offset), shape, width, mask, walk.frames(operation)
    )
    if operation.results:
        walk.bind(operation.results, [Value(kind_) for kind_ in result_types(operation.types)])


FOUR_BITS = "f4E2M1FN"


def _dot(walk: Interpreter, operation: Operation) -> None:
    """Record 2 m n k FLOPs for each matrix of the batch.

    4-bit operands pack two of k into a byte.
    """
    first = walk.operands(operation)[0]
    result = result_types(operation.types)[0]
    packed = 2 if "lhs = e2m1" in operation.text and "lhs_k_pack = false" not in operation.text else 1
    element = first.type.element if packed == 1 else FOUR_BITS
    walk.record.product(2 * prod(result.shape) * first.type.shape[-1] * packed, element, walk.frames(operation))
    walk.bind(operation.results, [Value(result)])


def _reads(handler: object, kind: AccessKind) -> Handler:
    def run(walk: Interpreter, operation: Operation) -> None:
        handler(walk, operation, kind)  # type: ignore[operator]

    return run


HANDLERS: Mapping[str, Handler] = {
    "tt.load": _load,
    "tt.store": _store,
    "tt.atomic_rmw": _atomic,
    "tt.atomic_load": _atomic,
    "tt.atomic_store": _atomic,
    "tt.atomic_cas": _compare_and_swap,
    "tt.atomic_poll": _compare_and_swap,
    "tt.make_tensor_descriptor": _make_descriptor,
    "tt.descriptor_load": _reads(descriptor_access, "read"),
    "tt.descriptor_store": _reads(descriptor_access, "write"),
    "tt.descriptor_reduce": _reads(descriptor_access, "atomic"),
    "tt.descriptor_gather": _reads(descriptor_rows, "read"),
    "tt.descriptor_scatter": _reads(descriptor_rows, "write"),
    "tt.dot": _dot,
    "tt.dot_scaled": _dot,
}
