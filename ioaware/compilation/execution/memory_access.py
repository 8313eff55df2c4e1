"""Execute loads, stores and atomics of a kernel.

The results are bytes, distinct sectors, and contents that are known.
"""

from __future__ import annotations

import re
from math import prod

import numpy as np

from ioaware.analysis.ir.mlir.locations import frames
from ioaware.analysis.ir.mlir.parser import Operation, split_top
from ioaware.analysis.ir.mlir.types import Type, parse_type
from ioaware.compilation.execution.executed_accesses import MAX_LANES, Instruction, adjacent_lanes, sector_runs
from ioaware.compilation.execution.integer_arithmetic import Array, wrap
from ioaware.compilation.execution.program_values import (
    POINTERS,
    Pointer,
    UndeterminedError,
    UnknownPointer,
    Value,
    is_array,
)
from ioaware.compilation.execution.run_state import RunState
from ioaware.sectors import SECTOR_BYTES

FLOATS = ("f16", "f32", "f64")
"""Element types of which float64 holds every value."""
MEMORY = {"tt.load": "read", "tt.store": "write", "tt.atomic_rmw": "atomic", "tt.atomic_cas": "atomic"}


def access(run: RunState, operation: Operation) -> None:
    """Count a load, store or atomic.

    The result of a load with known contents is bound.
    """
    kind = MEMORY[operation.name]
    operands = operation.operands
    pointer = run.value(operands[0])
    place = frames(operation.location, run.module.aliases)
    where = f"{operation.name} at {place[0].rpartition('/')[2] if place else 'an unknown line'}"
    if not isinstance(pointer, POINTERS):
        raise UndeterminedError(f"the address of {where} depends on a value that only the GPU computes")
    mask_at = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2, "tt.atomic_cas": 9}[operation.name]
    mask = run.value(operands[mask_at]) if len(operands) > mask_at else np.ones(1, bool)
    if not is_array(mask):
        raise UndeterminedError(f"the mask of {where} depends on a value that only the GPU computes")
    shape, element_bytes = accessed(operation)
    lanes = run.active.reshape(-1, *[1] * len(shape)) & mask.astype(bool, copy=False).reshape(mask.shape or (1,))
    if isinstance(pointer, Pointer):
        _beyond(run, where, pointer, lanes, shape, element_bytes)
    elements = int(np.count_nonzero(lanes)) * (prod(shape) // max(1, prod(lanes.shape[1:])))
    setattr(run.moved, f"{kind}_bytes", getattr(run.moved, f"{kind}_bytes") + elements * element_bytes)
    if kind != "read":
        run.moved.written_names.add(pointer.name)
        run.data.pop(pointer.name, None)  # what a later load finds there depends on the order of programs
    found: Value = None
    if run.accesses is not None:
        if isinstance(pointer, UnknownPointer):
            raise UndeterminedError(f"the address of {where} depends on a value that only the GPU computes")
        instruction = Instruction(operation.name, kind, pointer.name, place, element_bytes)
        run.accesses.add(operation, instruction, run.programs, pointer, lanes, shape)
    if isinstance(pointer, UnknownPointer):
        run.moved.has_sectors &= kind == "atomic"
    elif kind != "atomic":
        if run.accesses is None:
            _sectors(run, kind, pointer, lanes, shape, element_bytes)
        if kind == "read" and not run.needed.isdisjoint(operation.results):
            found = _loaded(run, operation, pointer, lanes, element_bytes)
    run.names.update(dict.fromkeys(operation.results, found))


def _beyond(run: RunState, where: str, pointer: Pointer, lanes: Array, shape: tuple[int, ...], element_bytes: int) -> None:
    """Count the lanes outside the storage of the tensor."""
    size = run.sizes.get(pointer.name)
    if size is None or not lanes.any():
        return
    if pointer.offsets.min() >= 0 and pointer.offsets.max() <= size - element_bytes:
        return
    outside = lanes & ((pointer.offsets < 0) | (pointer.offsets > size - element_bytes))
    if outside.any():
        count = int(np.count_nonzero(outside)) * (prod(shape) // max(1, prod(outside.shape[1:])))
        run.moved.beyond[where] = run.moved.beyond.get(where, 0) + count


def _sectors(run: RunState, kind: str, pointer: Pointer, lanes: Array, shape: tuple[int, ...], element_bytes: int) -> None:
    """Add the distinct sectors of each program's access."""
    full = (run.count, *shape)
    run.moved.lanes += prod(full)
    run.moved.has_sectors &= run.moved.lanes <= MAX_LANES and _are_multiples(pointer.offsets, element_bytes)
    if run.moved.has_sectors:
        _, low, high = sector_runs(*adjacent_lanes(pointer.offsets, lanes, full, element_bytes), run.count)
        name = f"{kind}_sector_bytes"
        setattr(run.moved, name, getattr(run.moved, name) + SECTOR_BYTES * int((high - low).sum()))


def _are_multiples(offsets: Array, size: int) -> bool:
    """Return whether all are multiples of a power of two: no lower bit is set in any."""
    return int(np.bitwise_or.reduce(offsets, axis=None)) & (size - 1) == 0


def _loaded(run: RunState, operation: Operation, pointer: Pointer, lanes: Array, element_bytes: int) -> Value:
    """Return the contents of a known tensor at these addresses, None of any other."""
    element, contents = pointer_type(operation).pointee, run.data.get(pointer.name)
    if contents is None or contents.itemsize != element_bytes:
        return None
    index, lanes = np.broadcast_arrays(pointer.offsets >> (element_bytes.bit_length() - 1), lanes)
    inside = (index >= 0) & (index < contents.size)
    found = _numbers(contents[np.where(lanes & inside, index, 0)], element)
    if found is None:
        return None
    if (lanes & ~inside).any():
        raise UndeterminedError(f"{pointer.name} is read beyond its storage")
    run.moved.read_names.add(pointer.name)
    other = run.value(operation.operands[2]) if len(operation.operands) > 2 else np.zeros(1, found.dtype)
    if other is None:
        return None
    chosen = np.where(lanes, found, other)
    return chosen if found.dtype == np.float64 else wrap(chosen, element)


def _numbers(contents: Array, element: str) -> Array | None:
    """Return contents as int64 or float64.

    None where a kernel reads them as another type.
    """
    if element == "bf16" and contents.dtype.kind in "iu":
        return (contents.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if element in FLOATS and contents.dtype.kind == "f":
        return contents.astype(np.float64)
    return contents.astype(np.int64) if re.fullmatch(r"i\d+", element) and contents.dtype.kind in "iub" else None


def pointer_type(operation: Operation) -> Type:
    """Return the type of the first operand, a pointer or a tile of pointers."""
    return parse_type(split_top(operation.types.split("->")[0].strip().removeprefix("(").removesuffix(")").strip())[0])


def accessed(operation: Operation) -> tuple[tuple[int, ...], int]:
    """Return the tile of a memory operation and the bytes of its elements."""
    kind = pointer_type(operation)
    return kind.shape, kind.element_bytes
