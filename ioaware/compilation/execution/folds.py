"""Reduce or scan integer tiles along an axis by the region of the operation.

The region is associative, as Triton requires, so that many pairs are combined at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ioaware.analysis.ir.mlir.parser import Operation
from ioaware.analysis.ir.mlir.types import parse_type
from ioaware.compilation.execution.integer_arithmetic import Array
from ioaware.compilation.execution.program_values import Value, is_array

FOLDS = ("tt.reduce", "tt.scan")
RETURNS = ("tt.reduce.return", "tt.scan.return")
COMMUTATIVE = tuple(f"arith.{name}" for name in ("addi", "muli", "andi", "ori", "xori", "maxsi", "maxui", "minsi", "minui"))
_NAME = re.compile(r"%[\w.$-]+(?:#\d+)?")
Combine = Callable[[Sequence[Value]], list[Value]]
"""Run the region for the earlier elements of each tile, then the later ones."""


def reduced_in_any_order(operations: Iterable[Operation]) -> frozenset[str]:
    """Return the values that are only reduced to one number.

    The order of their elements does not matter.
    """
    elsewhere: set[str] = set()
    reduced: set[str] = set()
    for operation in operations:
        (reduced if _is_commutative(operation) else elsewhere).update(_NAME.findall(operation.text), operation.operands)
    return frozenset(reduced - elsewhere)


def _is_commutative(operation: Operation) -> bool:
    """Return whether an operation reduces to one number by a commutative function."""
    if operation.name != "tt.reduce" or "tensor<" in operation.types.rpartition("->")[2]:
        return False
    inner = [one.name for one in operation.regions[0][0].operations]
    return len(inner) == 2 and inner[0] in COMMUTATIVE and inner[1] in RETURNS


def fold(operation: Operation, values: Sequence[Value], combine: Combine) -> list[Value]:
    """Return the results of a reduction or scan of integer tiles.

    Each is None where the region does more than integer arithmetic, or a tile is unknown.
    """
    unknown: list[Value] = [None] * len(operation.results)
    axis = re.search(r"axis = (\d+)", operation.tail + operation.text)
    shape = re.search(r"tensor<((?:\d+x)+)[^>]*>", operation.types)
    tiles = [value for value in values if is_array(value)]
    inner = [one.name for one in operation.regions[0][0].operations]
    is_plain = all(name.startswith("arith.") or name in RETURNS for name in inner)
    if axis is None or shape is None or len(tiles) != len(values) or not is_plain:
        return unknown
    sizes = parse_type(shape[0]).shape
    programs = max(tile.shape[0] for tile in tiles)
    whole = [np.broadcast_to(tile, (programs, *sizes)) for tile in tiles]
    at = int(axis[1]) + 1
    if operation.name == "tt.reduce":
        found = _reduced(whole, at, combine)
        return unknown if found is None else [tile.squeeze(at) for tile in found]
    is_reversed = "reverse = true" in operation.tail + operation.text
    turned = [np.flip(tile, at) for tile in whole] if is_reversed else whole
    found = _scanned(turned, at, combine)
    return unknown if found is None else [np.flip(tile, at) for tile in found] if is_reversed else [*found]


def _reduced(tiles: Sequence[Array], axis: int, combine: Combine) -> Sequence[Array] | None:
    """Combine neighbours along the axis until one element is left."""
    while tiles[0].shape[axis] > 1:
        pairs = [_slice(tile, axis, start, None, 2) for start in (0, 1) for tile in tiles]
        found = [value for value in combine(pairs) if is_array(value)]
        if len(found) != len(tiles):
            return None
        tiles = [np.broadcast_to(one, pair.shape) for one, pair in zip(found, pairs, strict=False)]
    return tiles


def _scanned(tiles: Sequence[Array], axis: int, combine: Combine) -> Sequence[Array] | None:
    """Combine each element with the one `distance` before it: 1, 2, 4, ..."""
    size, distance = tiles[0].shape[axis], 1
    while distance < size:
        earlier = [_slice(tile, axis, 0, size - distance) for tile in tiles]
        later = [_slice(tile, axis, distance, size) for tile in tiles]
        found = [value for value in combine([*earlier, *later]) if is_array(value)]
        if len(found) != len(tiles):
            return None
        heads = [_slice(tile, axis, 0, distance) for tile in tiles]
        tails = [np.broadcast_to(one, tile.shape) for one, tile in zip(found, later, strict=True)]
        tiles = [np.concatenate(pair, axis) for pair in zip(heads, tails, strict=True)]
        distance *= 2
    return tiles


def _slice(tile: Array, axis: int, start: int, stop: int | None, step: int = 1) -> Array:
    return tile[(slice(None),) * axis + (slice(start, stop, step),)]


__all__ = ["FOLDS", "RETURNS", "fold", "reduced_in_any_order"]
