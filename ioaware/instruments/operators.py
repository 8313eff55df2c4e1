"""What torch's own operators move between the kernels of a work: assumed, since nobody looks inside them.

Each reads its inputs once and writes its outputs once, which is the least it can do. Views and allocations move nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ioaware.instruments.allocations import Watch, storages, strided_tensors
from ioaware.traffic import Launch, Traffic

NOTE = "assumed: inputs read once, outputs written once"
ALLOCATIONS = frozenset(
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "set_")
)
OVERWRITES = frozenset(
    f"aten::{name}"
    for name in (
        "copy_",
        "fill_",
        "zero_",
        "normal_",
        "uniform_",
        "random_",
        "exponential_",
        "bernoulli_",
        "geometric_",
        "cauchy_",
    )
)
"""Operators in place that do not read what they replace."""


class Operators(Watch):
    """Inside the block, appends to `launches` one of origin "torch" for each operator that moves data."""

    def __init__(self, launches: list[Launch]) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._launches = launches

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        before = len(self._launches)
        outcome = func(*args, **(kwargs or {}))
        moved = movement(func, args, kwargs or {}, outcome)
        if moved is not None and len(self._launches) == before:  # an operator made of Triton kernels is counted as those
            self._launches.append(Launch(str(func), origin="torch", requested=moved, exact=False, notes=(NOTE,)))
        return outcome


def movement(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outcome: object) -> Traffic | None:
    """Bytes an operator reads and writes, or None when it moves nothing: a view, an allocation, a question about metadata."""
    name: str = func._schema.name
    if name in ALLOCATIONS:
        return None
    changed = [(argument, value) for argument, value in _arguments(func, args, kwargs) if _is_written(argument)]
    overwritten = [value for argument, value in changed if argument.kwarg_only or name in OVERWRITES]
    inputs = strided_tensors((args, kwargs))
    blind = {id(tensor) for tensor in strided_tensors(overwritten)}
    read_bytes = sum(_distinct(tensor for tensor in inputs if id(tensor) not in blind).values())
    shared = storages((args, kwargs))
    outputs = strided_tensors(outcome)
    fresh = [tensor for tensor in outputs if not storages(tensor).keys() <= shared.keys()]
    rewritten = strided_tensors([value for _, value in changed])
    write_bytes = sum(_distinct([*rewritten, *fresh]).values())
    is_view = not write_bytes and bool(outputs)
    return None if is_view or read_bytes + write_bytes == 0 else Traffic(read_bytes, write_bytes)


def _arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Each argument of the operator's schema that was given, with its value."""
    for position, argument in enumerate(func._schema.arguments):
        if position < len(args):
            yield argument, args[position]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _distinct(tensors: Iterable[torch.Tensor]) -> dict[tuple[Any, ...], int]:
    """Bytes of each different view among the tensors; a dimension of stride 0 repeats the same elements."""
    return {
        (tensor.data_ptr(), tensor.size(), tensor.stride()): tensor.element_size()
        * math.prod(size for size, stride in zip(tensor.size(), tensor.stride(), strict=True) if stride or not size)
        for tensor in tensors
    }
