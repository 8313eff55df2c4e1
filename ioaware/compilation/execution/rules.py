"""Apply rules of operations without effects.

These are constants, program ids, shapes, pointers and integers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ioaware.analysis.ir.mlir.parser import Operation, split_top
from ioaware.analysis.ir.mlir.types import Type, parse_type, result_types
from ioaware.compilation.execution.integer_arithmetic import Array, compare, wrap
from ioaware.compilation.execution.memory_access import accessed
from ioaware.compilation.execution.program_values import POINTERS, Pointer, UnknownPointer, Value, is_array, merge
from ioaware.compilation.execution.run_state import RunState, attribute

Rule = Callable[[RunState, Operation], Value]
"""A function that returns the result of an operation, None where it is unknown."""


def _constant(_: RunState, operation: Operation) -> Value:
    text = operation.head.strip()
    text = text[text.index("dense<") + 6 : text.rindex(">")] if "dense<" in text else text
    if text in ("true", "false"):
        return np.asarray([text == "true"])
    kind = result_types(operation.types)[0] if operation.types else Type((), "i1")
    if re.fullmatch(r"-?\d+\.\d+(e[+-]?\d+)?", text) and kind.element in ("f32", "f64"):
        number = np.float32(text) if kind.element == "f32" else np.float64(text)
        return np.asarray([number], np.float64).reshape(1, *[1] * len(kind.shape))
    if not re.fullmatch(r"-?\d+", text) or not kind.is_integer:
        return None
    return np.asarray([int(text)], np.int64).reshape(1, *[1] * len(kind.shape))


def _program_id(run: RunState, operation: Operation) -> Value:
    return run.ids[operation.head.strip()[0]]


def _num_programs(run: RunState, operation: Operation) -> Value:
    return np.asarray([run.grid[operation.head.strip()[0]]], np.int64)


def _range(_: RunState, operation: Operation) -> Value:
    start, end = (int(attribute(operation, rf"{name} = (-?\d+)")) for name in ("start", "end"))
    return np.arange(start, end, dtype=np.int64).reshape(1, -1)


def _reshaped(value: Value, change: Callable[[Array], Array]) -> Value:
    if isinstance(value, Pointer):
        return Pointer(value.name, change(value.offsets))
    if isinstance(value, UnknownPointer):
        return value
    return change(value) if is_array(value) else None


def _splat(run: RunState, operation: Operation) -> Value:
    rank = len(result_types(operation.types)[0].shape)
    return _reshaped(run.value(operation.operands[0]), lambda array: array.reshape(-1, *[1] * rank))


def _unsplat(run: RunState, operation: Operation) -> Value:
    return _reshaped(run.value(operation.operands[0]), lambda array: array.reshape(-1))


def _same(run: RunState, operation: Operation) -> Value:
    return run.value(operation.operands[0])


def _bitcast(run: RunState, operation: Operation) -> Value:
    """Return the same pointer or integer.

    None for a float, of which no bits are known.
    """
    value, kind = run.value(operation.operands[0]), result_types(operation.types)[0]
    return None if is_array(value) and (value.dtype == np.float64 or not kind.is_integer) else value


def _expand(run: RunState, operation: Operation) -> Value:
    axis = int(attribute(operation, r"axis = (\d+)")) + 1
    return _reshaped(run.value(operation.operands[0]), lambda array: np.expand_dims(array, axis))


def _full(array: Array, shape: Sequence[int]) -> Array:
    return np.broadcast_to(array, (array.shape[0], *shape))


def _reshape(run: RunState, operation: Operation) -> Value:
    before, after = parse_type(operation.types.split("->")[0]), result_types(operation.types)[0]
    if "allow_reorder" in operation.text and operation.results[0] not in run.unordered:
        return None

    def change(array: Array) -> Array:
        return _full(array, before.shape).reshape(array.shape[0], *after.shape)

    return _reshaped(run.value(operation.operands[0]), change)


def _transpose(run: RunState, operation: Operation) -> Value:
    before = parse_type(operation.types.split("->")[0])
    order = [int(number) for number in attribute(operation, r"order = array<i32: ([^>]*)>").split(",")]

    def change(array: Array) -> Array:
        return _full(array, before.shape).transpose(0, *(axis + 1 for axis in order))

    return _reshaped(run.value(operation.operands[0]), change)


def _join(run: RunState, operation: Operation) -> Value:
    """Return two tiles as the last axis of one."""
    shape = result_types(operation.types)[0].shape[:-1]
    tiles = [run.value(name) for name in operation.operands]
    known = [_full(tile, shape) for tile in tiles if is_array(tile)]
    return np.stack(np.broadcast_arrays(*known), -1) if len(known) == len(tiles) else None


def split(run: RunState, operation: Operation) -> list[Value]:
    """Return the two tiles along the last axis of one."""
    tile, shape = run.value(operation.operands[0]), parse_type(operation.types.split("->")[0]).shape
    return [_full(tile, shape)[..., at] if is_array(tile) else None for at in (0, 1)]


def _gather(run: RunState, operation: Operation) -> Value:
    """Return elements of a tile at the places of another along an axis."""
    tile, places = (run.value(name) for name in operation.operands)
    if not is_array(tile) or not is_array(places):
        return None
    before, after = (parse_type(kind).shape for kind in split_top(operation.types.partition("->")[0].strip().strip("()")))
    programs = max(len(tile), len(places))
    whole = np.broadcast_to(tile, (programs, *before)), np.broadcast_to(places, (programs, *after))
    return np.take_along_axis(*whole, int(attribute(operation, r"axis = (\d+)")) + 1)


def _addptr(run: RunState, operation: Operation) -> Value:
    pointer, offset = (run.value(name) for name in operation.operands)
    if not isinstance(pointer, Pointer) or not is_array(offset):
        return UnknownPointer(pointer.name) if isinstance(pointer, POINTERS) else None
    moved = offset.astype(np.int64, copy=False) * accessed(operation)[1]
    whole = np.broadcast_shapes(moved.shape, pointer.offsets.shape) == moved.shape
    return Pointer(pointer.name, np.add(pointer.offsets, moved, out=moved if whole else None))


def _compare(run: RunState, operation: Operation) -> Value:
    predicate = operation.text.split(",")[0].strip()
    a, b = (run.value(name) for name in operation.operands)
    if isinstance(a, POINTERS) or isinstance(b, POINTERS):
        return _is_null(predicate, a, b)
    if not is_array(a) or not is_array(b):
        return None
    return compare(predicate, a, b, parse_type(operation.types).element)


def _compare_floats(run: RunState, operation: Operation) -> Value:
    a, b = (run.value(name) for name in operation.operands)
    if not is_array(a) or not is_array(b):
        return None
    predicate = operation.text.split(",")[0].strip()
    relation, is_unordered = FLOAT_RELATIONS.get(predicate[1:]), np.isnan(a) | np.isnan(b)
    if relation is None or predicate[0] not in "ou":
        return None
    return relation(a, b) | is_unordered if predicate[0] == "u" else relation(a, b) & ~is_unordered


def _is_null(predicate: str, a: Value, b: Value) -> Value:
    """Compare an address with zero, where no tensor begins.

    None for any other comparison.
    """
    other = b if isinstance(a, POINTERS) else a
    if predicate not in ("eq", "ne") or not is_array(other) or other.any():
        return None
    return np.full((1,) * max(1, other.ndim), predicate == "ne")


def _select(run: RunState, operation: Operation) -> Value:
    condition, a, b = (run.value(name) for name in operation.operands)
    if not is_array(condition):
        return None
    if isinstance(a, Pointer) and isinstance(b, Pointer) and a.name == b.name:
        return Pointer(a.name, np.where(condition, a.offsets, b.offsets))
    if isinstance(a, POINTERS) and isinstance(b, POINTERS):
        if a.name == b.name:
            return UnknownPointer(a.name)
        is_of_program = condition.size == len(condition)
        return merge(np.broadcast_to(condition.reshape(-1), (run.count,)).astype(bool), a, b) if is_of_program else None
    return np.where(condition, a, b) if is_array(a) and is_array(b) else None


def _converted(run: RunState, operation: Operation) -> Value:
    value = run.value(operation.operands[0])
    if not is_array(value):
        return None
    before, after = (parse_type(text).element for text in operation.types.split(" to "))
    if operation.name == "arith.extui" and before != "i1":
        value = value.astype(np.int64) & ((1 << int(before[1:])) - 1)
    if operation.name == "arith.extsi" and before == "i1":
        return -value.astype(np.int64)
    return wrap(value.astype(np.int64), after)


FLOAT_RELATIONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
"""Predicates of `arith.cmpf` after its first letter: ordered or unordered."""
RULES: Mapping[str, Rule] = {
    "arith.constant": _constant,
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _num_programs,
    "tt.make_range": _range,
    "tt.splat": _splat,
    "tt.broadcast": _same,
    "tt.bitcast": _bitcast,
    "arith.extf": _same,
    "tt.ptr_to_int": _same,
    "tt.expand_dims": _expand,
    "tt.unsplat": _unsplat,
    "tt.reshape": _reshape,
    "tt.trans": _transpose,
    "tt.join": _join,
    "tt.gather": _gather,
    "tt.addptr": _addptr,
    "arith.cmpi": _compare,
    "arith.cmpf": _compare_floats,
    "arith.select": _select,
    **dict.fromkeys(("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast"), _converted),
}
