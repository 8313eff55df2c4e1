"""The part of each tile that memory fills.

The rest is padding of the block to a power of two.

A masked load fills a box of its block, from the first element on. An elementwise operation is valid where all its operands
are. A product of tiles is valid in the rows of the left and the columns of the right. The extent travels with the
interpreter's values, so that a walk shows S as 2 x 3 where the kernel computes 16 x 16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from triton.runtime import interpreter as _interpreter

from ioaware._monkeypatch import Patches
from ioaware.tracing.address_space import as_mask

interpreter: Any = _interpreter
Extent = tuple[int, ...]
Operation = Callable[..., Any]


def extent_of(handle: Any) -> Extent:
    """Return the valid sizes of a value.

    They are those of its whole block where nothing limits them.
    """
    shape: Extent = handle.data.shape
    return getattr(handle, "valid_extent", shape)


def install(builder: Any, patches: Patches) -> None:
    """Make the builder's operations, and reductions, pass extents on."""

    def extended(name: str, plain: Operation) -> Operation:
        rule = RULES.get(name, _elementwise)

        def operation(*operands: Any, **options: Any) -> Any:
            outcome = plain(*operands, **options)
            if isinstance(outcome, interpreter.TensorHandle):
                _limit(outcome, rule(outcome.data.shape, operands))
            return outcome

        return operation

    for name in dir(builder):
        if name.startswith("create_"):
            patches.set(builder, name, extended(name, getattr(builder, name)))
    reduce: Operation = interpreter.ReduceOps.apply_impl

    def reduced(operation: Any, operands: Any) -> Any:
        outcome = reduce(operation, operands)
        kept = _without(extent_of(operands[0].handle), operation.axis, operation.keep_dims)
        for handle in _handles(outcome):
            _limit(handle, kept)
        return outcome

    patches.set(interpreter.ReduceOps, "apply_impl", reduced)


def _handles(outcome: Any) -> Iterator[Any]:
    """Yield the handles of the tensors that a reduction returns: one, or several."""
    if isinstance(outcome, (tuple, list)):
        for value in outcome:  # pyright: ignore[reportUnknownVariableType]
            yield from _handles(value)
    elif hasattr(outcome, "handle"):
        yield outcome.handle


def _limit(handle: Any, extent: Extent | None) -> None:
    if extent is not None and extent != handle.data.shape and len(extent) == handle.data.ndim:
        handle.valid_extent = extent


def _elementwise(shape: Extent, operands: Sequence[Any]) -> Extent | None:
    """Return the smallest extents among the operands of the result's shape."""
    extents = [
        extent_of(operand)
        for operand in operands
        if isinstance(operand, interpreter.TensorHandle) and operand.data.shape == shape
    ]
    return tuple(map(min, zip(*extents, strict=True))) if extents else None


def _dot(shape: Extent, operands: Sequence[Any]) -> Extent:
    left, right, accumulator = (extent_of(operand) for operand in operands[:3])
    product = (*shape[:-2], left[-2], right[-1])
    return tuple(map(min, zip(product, accumulator, strict=True)))


def _transposed(shape: Extent, operands: Sequence[Any]) -> Extent:
    del shape
    extent, axes = extent_of(operands[0]), list[int](operands[1])
    return tuple(extent[axis] for axis in axes)


def _with_axis(shape: Extent, operands: Sequence[Any]) -> Extent:
    """Return the extents after `expand_dims` inserts an axis of size 1."""
    extent, axis = list(extent_of(operands[0])), int(operands[1])
    extent.insert(axis if axis >= 0 else len(shape) + axis, 1)
    return tuple(extent)


def _broadcast(shape: Extent, operands: Sequence[Any]) -> Extent:
    """Return the extents of a broadcast; an axis that it repeats is valid throughout."""
    source = operands[0]
    sizes = zip(extent_of(source), source.data.shape, shape, strict=True)
    return tuple(valid if size == new else new for valid, size, new in sizes)


def _loaded(shape: Extent, operands: Sequence[Any]) -> Extent | None:
    """Return the box that a load's mask covers.

    None if the active elements are no box from the first element on.
    """
    return box_of(np.broadcast_to(as_mask(operands[1]), shape))


def box_of(active: NDArray[np.bool_]) -> Extent | None:
    """Return the sizes of the box of active elements.

    None if they are all, none, or no box from the first element on.
    """
    if active.all() or not active.any():
        return None
    box = tuple(int(where.max()) + 1 for where in np.nonzero(active))
    return box if int(np.count_nonzero(active)) == int(np.prod(box)) else None


def _without(extent: Extent, axis: int | None, keep_dims: bool) -> Extent:
    """Return the extents after a reduction over `axis`, None for all."""
    reduced = range(len(extent)) if axis is None else (axis % len(extent),)
    if keep_dims:
        return tuple(1 if at in reduced else size for at, size in enumerate(extent))
    return tuple(size for at, size in enumerate(extent) if at not in reduced)


def _unknown(shape: Extent, operands: Sequence[Any]) -> None:
    del shape, operands


RULES: dict[str, Callable[[Extent, Sequence[Any]], Extent | None]] = {
    "create_masked_load": _loaded,
    "create_dot": _dot,
    "create_trans": _transposed,
    "create_expand_dims": _with_axis,
    "create_broadcast": _broadcast,
    **dict.fromkeys(("create_reshape", "create_cat", "create_join", "create_gather", "create_histogram"), _unknown),
}
"""How the valid extents of a result follow from the operands.

Elementwise unless named.
"""
