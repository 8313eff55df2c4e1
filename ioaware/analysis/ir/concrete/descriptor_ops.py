"""Plain interpretation of tensor descriptors: blocks, gathered and scattered rows."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from ioaware.analysis.ir.concrete.interpreter_state import Descriptor, Handler, Run
from ioaware.analysis.ir.concrete.tally import UnsupportedOperationError
from ioaware.analysis.ir.mlir.parser import Operation, split_top
from ioaware.analysis.ir.mlir.types import parse_type


def make_descriptor(run: Run, operation: Operation) -> None:
    pointer, shape, strides = split_top(operation.head)[:3]
    sizes, steps = (
        tuple(run.integer(name, operation) for name in re.findall(r"%[\w.$#-]+", text)) for text in (shape, strides)
    )
    block = parse_type(split_top(operation.types)[-1].removeprefix("!tt.tensordesc"))
    run.set(operation, Descriptor(run.integer(pointer, operation), sizes, steps, block))


def descriptor_block(run: Run, operation: Operation, kind: str) -> None:
    """Count a block of a descriptor; lanes outside the tensor are not accessed."""
    found = re.search(r"(%[\w.$#-]+)\[(.*?)\]", operation.head)
    descriptor = run.value(found[1]) if found else None
    if found is None or not isinstance(descriptor, Descriptor):
        raise UnsupportedOperationError(operation.name)
    starts = [run.integer(name, operation) for name in re.findall(r"%[\w.$#-]+", found[2])]
    places = np.indices(descriptor.block.shape, dtype=np.int64)
    inside, offset = np.ones(descriptor.block.shape, bool), np.zeros(descriptor.block.shape, np.int64)
    for start, place, size, stride in zip(starts, places, descriptor.shape, descriptor.strides, strict=True):
        inside &= (start + place >= 0) & (start + place < size)
        offset += (start + place) * stride
    width = descriptor.block.element_bytes
    run.access(kind, descriptor.base + offset * width, inside, width, operation)
    if operation.results:
        run.opaque(operation)


def descriptor_rows(run: Run, operation: Operation, kind: str) -> None:
    """Count a gather or scatter: rows from an index tensor, and a block of columns."""
    found = re.search(r"(%[\w.$#-]+)\[(%[\w.$#-]+), (%[\w.$#-]+)\]", operation.head)
    descriptor = run.value(found[1]) if found else None
    if found is None or not isinstance(descriptor, Descriptor):
        raise UnsupportedOperationError(operation.name)
    rows, start = run.array(run.value(found[2]), operation).astype(np.int64)[:, None], run.integer(found[3], operation)
    columns = start + np.arange(descriptor.block.shape[-1], dtype=np.int64)[None, :]
    inside = (rows >= 0) & (rows < descriptor.shape[0]) & (columns >= 0) & (columns < descriptor.shape[1])
    width = descriptor.block.element_bytes
    addresses = descriptor.base + (rows * descriptor.strides[0] + columns * descriptor.strides[1]) * width
    run.access(kind, addresses, inside, width, operation)
    if operation.results:
        run.opaque(operation)


def counting(rule: Callable[[Run, Operation, str], None], kind: str) -> Handler:
    """Return the rule of an access as one of this kind."""
    return lambda run, operation: rule(run, operation, kind)
