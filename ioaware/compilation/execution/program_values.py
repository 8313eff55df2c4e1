"""Values of an executed kernel, and the bytes that it moves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np

from ioaware.compilation.execution.integer_arithmetic import Array


def is_array(value: Any) -> TypeGuard[Array]:
    """Return whether a value is an array of integers or booleans."""
    return isinstance(value, np.ndarray)


class UndeterminedError(Exception):
    """An access depends on an unknown value; the message names it."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """Pointers into the tensor of an argument.

    `offsets` are in bytes from the start of its storage.
    """

    name: str
    offsets: Array


@dataclass(frozen=True, slots=True)
class UnknownPointer:
    """Pointers into the tensor of an argument at offsets that are unknown.

    Their accesses have bytes, which the mask decides, and no sectors.
    """

    name: str


@dataclass(frozen=True, slots=True)
class ChosenPointer:
    """Pointers into the tensors of several arguments, of which each program has one.

    `parts` have the programs of each, a truth value for every program.
    """

    parts: tuple[tuple[Array, Pointer | UnknownPointer], ...]


Value = Any
"""An integer or boolean array, a pointer, or None where it is unknown.

The array is [programs, *tile] (dimensions of 1 broadcast).
"""


POINTERS = (Pointer, UnknownPointer)
ANY_POINTER = (*POINTERS, ChosenPointer)
RANDOM = " that the function built, which are random and differ from run to run"
INVENTED = ", which were not given: zeros stand for them"
"""Caveats about contents: drawn at random, or zeros of a parameter."""


@dataclass
class Moved:
    """Bytes of a launch."""

    read_bytes: int = 0
    write_bytes: int = 0
    atomic_bytes: int = 0
    read_sector_bytes: int = 0
    write_sector_bytes: int = 0
    flops: int = 0
    caveat: str = ""
    """Why the contents that were read are one example of many.

    Empty where they are the target's own.
    """
    lanes: int = 0
    operations: int = 0
    has_sectors: bool = True
    read_names: set[str] = field(default_factory=set[str])
    """Tensors with contents that were read."""
    written_names: set[str] = field(default_factory=set[str])
    """Tensors that the launch wrote."""
    beyond: dict[str, int] = field(default_factory=dict[str, int])
    """Accessed elements outside their storage, by instruction and line."""
    contents: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """Elements of the storages whose contents were read, by tensor."""
    without: Callable[[Collection[str]], Moved] | None = None
    """Execute the launch again without the contents of these tensors.

    Raises `UndeterminedError` where an access depends on them.
    """

    def same_bytes(self, other: Moved) -> bool:
        """Return whether another execution moved the same bytes, with the same operations."""
        return all(getattr(self, name) == getattr(other, name) for name in COUNTS)


COUNTS = (
    *("read_bytes", "write_bytes", "atomic_bytes", "read_sector_bytes", "write_sector_bytes"),
    *("flops", "lanes", "operations", "has_sectors"),
)
"""Fields of `Moved` that are counts."""


def merge(mask: Array, new: Value, old: Value) -> Value:
    """Return `new` for the programs of the mask and `old` for the others."""
    if new is old:
        return new
    if isinstance(new, Pointer) and isinstance(old, Pointer) and new.name == old.name:
        return Pointer(new.name, merge(mask, new.offsets, old.offsets))
    if isinstance(new, POINTERS) and isinstance(old, POINTERS) and new.name == old.name:
        return UnknownPointer(new.name)
    if isinstance(new, ANY_POINTER) and isinstance(old, ANY_POINTER):
        return _chosen([*_parts(new, mask), *_parts(old, ~mask)])
    if is_array(new) and is_array(old):
        if new.dtype == old.dtype and mask.all():
            return new
        return np.where(mask.reshape(-1, *[1] * (max(new.ndim, old.ndim) - 1)), new, old)
    return None


def _parts(value: Value, programs: Array) -> list[tuple[Array, Value]]:
    """Return the pointers that these programs have, without those of no program."""
    parts = value.parts if isinstance(value, ChosenPointer) else [(programs, value)]
    return [(mask & programs, pointer) for mask, pointer in parts if (mask & programs).any()]


def _chosen(parts: list[tuple[Array, Value]]) -> Value:
    """Return what each program has; the parts cover all programs."""
    by_name: dict[str, tuple[Array, Value]] = {}
    for programs, pointer in parts:
        before = by_name.get(pointer.name)
        by_name[pointer.name] = (before[0] | programs, merge(programs, pointer, before[1])) if before else (programs, pointer)
    chosen = tuple(by_name.values())
    return chosen[0][1] if len(chosen) == 1 else ChosenPointer(chosen)
