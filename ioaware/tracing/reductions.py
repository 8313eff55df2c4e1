"""Run `tl.reduce` and `tl.associative_scan` on whole blocks.

The combine function may be any.

Triton's interpreter calls a combine function once per element, which takes minutes for a tile. Here it receives blocks: the two
halves of the axis for a reduction, the block and its shifted copy for a scan. That takes log2(n) calls each. The combine
function is associative, so only the order of rounding differs. One that branches on its operands (`if a > b`) needs scalars and
falls back to Triton's form.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import triton.language as _tl
from numpy.typing import NDArray
from triton.runtime import interpreter as _interpreter

from ioaware._monkeypatch import Patches

interpreter: Any = _interpreter
tl: Any = _tl
Blocks = list[NDArray[Any]]
Rewrite = Callable[[Any], Callable[..., Any]]


class BranchOnBlockError(Exception):
    """A combine function branched on a block of values."""


def install(patches: Patches, rewrite: Rewrite) -> None:
    """Replace the generic forms.

    `rewrite` gives the interpreted form of a device function.
    """
    reduce_form: Any = patches.set(interpreter.ReduceOps, "generic_reduce", None)
    scan_form: Any = patches.set(interpreter.ScanOps, "generic_scan", None)

    def reduce(operation: Any, operands: Sequence[Any]) -> Any:
        combine = rewrite(operation.combine_fn)
        try:
            with _no_branches():
                return _reduce(operation, operands, combine)
        except BranchOnBlockError:
            return reduce_form(operation, operands)

    def scan(operation: Any, operands: Sequence[Any]) -> Any:
        combine = rewrite(operation.combine_fn)
        try:
            with _no_branches():
                return _scan(operation.axis, operands, combine)
        except BranchOnBlockError:
            return scan_form(operation, operands)

    patches.set(interpreter.ReduceOps, "sum", _sum)
    patches.set(interpreter.ReduceOps, "generic_reduce", reduce)
    patches.set(interpreter.ScanOps, "generic_scan", scan)


def _sum(operation: Any, operand: Any) -> Any:
    """Return a sum in the type of its operand, in which integers wrap around.

    The interpreter adds them in 64 bits and refuses a sum that does not fit.
    """
    data = operand.handle.data
    kind = data.dtype if data.dtype.kind in "iu" else None
    return operation.to_tensor(np.sum(data, axis=operation.axis, keepdims=operation.keep_dims, dtype=kind), operand.dtype)


def _reduce(operation: Any, operands: Sequence[Any], combine: Callable[..., Any]) -> list[Any]:
    """Combine the two halves of the axis until one element is left."""
    kinds = [operand.dtype for operand in operands]
    shape = operands[0].handle.data.shape
    whole = operation.axis is None
    axis = 0 if whole else operation.axis % len(shape)
    blocks = [operand.handle.data.reshape(-1) if whole else operand.handle.data for operand in operands]
    while (size := blocks[0].shape[axis]) > 1:
        half = size // 2
        left, right = ([_slice(block, axis, at, at + half) for block in blocks] for at in (0, half))
        blocks = _combine(combine, left, right, kinds)
    if operation.keep_dims:
        blocks = [block.reshape([1] * len(shape)) if whole else block for block in blocks]
    else:
        blocks = [block.squeeze(axis) for block in blocks]
    return [_tensor(block, kind) for block, kind in zip(blocks, kinds, strict=True)]


def _scan(axis: int, operands: Sequence[Any], combine: Callable[..., Any]) -> list[Any]:
    """Combine every element with the one `distance` before it: 1, 2, 4, ...

    (Hillis and Steele, 1986).
    """
    kinds = [operand.dtype for operand in operands]
    blocks = [operand.handle.data for operand in operands]
    size, distance = blocks[0].shape[axis], 1
    while distance < size:
        before = [np.roll(block, distance, axis) for block in blocks]  # whole blocks: sizes are powers of two
        combined = _combine(combine, before, blocks, kinds)
        heads = [_slice(block, axis, 0, distance) for block in blocks]
        tails = [_slice(block, axis, distance, size) for block in combined]
        blocks = [np.concatenate(pair, axis) for pair in zip(heads, tails, strict=True)]
        distance *= 2
    return [_tensor(block, kind) for block, kind in zip(blocks, kinds, strict=True)]


def _combine(combine: Callable[..., Any], left: Blocks, right: Blocks, kinds: Sequence[Any]) -> Blocks:
    operands = [_tensor(block, kind) for blocks in (left, right) for block, kind in zip(blocks, kinds, strict=True)]
    outcome = combine(*operands)
    values = outcome if isinstance(outcome, (tuple, tl.tuple)) else (outcome,)
    shape = left[0].shape
    return [_data(value, kind, shape) for value, kind in zip(values, kinds, strict=True)]


def _data(value: Any, kind: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    tensor = interpreter.interpreter_semantic.to_tensor(value).to(kind)
    return np.broadcast_to(tensor.handle.data, shape)


def _tensor(block: NDArray[Any], kind: Any) -> Any:
    if not block.shape:
        return tl.tensor(interpreter.TensorHandle(block.reshape(1), kind), kind)
    return tl.tensor(interpreter.TensorHandle(block, kind), tl.block_type(kind, list(block.shape)))


def _slice(block: NDArray[Any], axis: int, start: int, stop: int) -> NDArray[Any]:
    return block[(slice(None),) * axis + (slice(start, stop),)]


@contextmanager
def _no_branches() -> Generator[None]:
    """Raise `BranchOnBlockError` where a block is used as a condition."""

    def truth(tensor: Any) -> bool:
        if tensor.type.is_block():
            raise BranchOnBlockError
        return bool(tensor.handle.data)

    with Patches() as patches:
        patches.set(tl.tensor, "__bool__", truth)
        yield
