"""What host code did, in its own parameters: the launches it made and the operators of torch's own between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import torch
from sympy import Expr

from ioaware.symints.guards import Condition


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A tensor given to a kernel. Sizes, strides and `offset` (of its first element in its storage) count elements."""

    dtype: Any
    """torch's dtype, or Triton's for `triton.reinterpret`."""
    itemsize: int
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    offset: Expr
    storage: int
    """The same number for tensors that share memory."""
    storage_bytes: Expr


@dataclass(frozen=True, slots=True)
class DescriptorValue:
    """A tensor descriptor that the host made: `template` is the object itself with the tensor and the sizes left out."""

    base: TensorValue
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    block_shape: tuple[int, ...]
    template: Any


Value: TypeAlias = "Expr | bool | float | TensorValue | DescriptorValue | tuple[Value, ...] | object | None"
"""An argument: integers as expressions of the parameters, anything that only a constexpr can hold as it is."""


@dataclass(frozen=True, slots=True)
class CapturedLaunch:
    """A kernel and everything it was launched with. `options` are num_warps and its like; constexprs are plain values."""

    kernel: Any
    arguments: Mapping[str, Value]
    grid: tuple[Expr, Expr, Expr]
    options: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    """What its constexprs take for granted of the parameters."""

    @property
    def name(self) -> str:
        """The kernel's, as its author wrote it."""
        return str(self.kernel.fn.__name__)


@dataclass(frozen=True, slots=True)
class CapturedOperator:
    """An operator of torch's own: bytes that it reads and writes at least."""

    name: str
    read_bytes: Expr
    write_bytes: Expr


Event: TypeAlias = CapturedLaunch | CapturedOperator


def agree(symbolic: list[Event], plain: list[Event], at: Callable[[Expr], Expr]) -> bool:
    """Whether a run with symbols is, `at` the given values, launch by launch the run with plain integers."""
    if len(symbolic) != len(plain):
        return False
    return all(_same(one, other, at) for one, other in zip(symbolic, plain, strict=True))


def _same(one: Any, other: Any, at: Callable[[Expr], Expr]) -> bool:
    if isinstance(one, CapturedLaunch) and isinstance(other, CapturedLaunch):
        return (
            one.kernel.fn.__code__ == other.kernel.fn.__code__  # host code may define its kernel anew in each call
            and one.arguments.keys() == other.arguments.keys()
            and tuple(map(at, one.grid)) == other.grid
            and all(_same_value(value, other.arguments[name], at) for name, value in one.arguments.items())
            and all(_close(one.arguments.get(name), other.arguments.get(name)) for name in _constants(one.kernel))
            and one.options == other.options
        )
    if isinstance(one, CapturedOperator) and isinstance(other, CapturedOperator):
        return one.name == other.name and (at(one.read_bytes), at(one.write_bytes)) == (other.read_bytes, other.write_bytes)
    return False


def _same_value(one: Any, other: Any, at: Callable[[Expr], Expr]) -> bool:
    """Floats are not compared: no address, mask or loop bound is one, unless it is a constexpr."""
    if isinstance(one, Expr) and isinstance(other, Expr):
        return _equal(at(one), other)
    if isinstance(one, TensorValue) and isinstance(other, TensorValue):
        return (one.dtype, one.storage, at(one.offset)) == (other.dtype, other.storage, other.offset)
    if isinstance(one, DescriptorValue) and isinstance(other, DescriptorValue):
        return (
            one.block_shape == other.block_shape
            and _same_value(one.base, other.base, at)
            and all(_equal(at(a), b) for a, b in zip((*one.shape, *one.strides), (*other.shape, *other.strides), strict=True))
        )
    items, others = items_of(one), items_of(other)
    if items is not None and others is not None:
        return len(items) == len(others) and all(_same_value(a, b, at) for a, b in zip(items, others, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return True
    return type(one) is type(other) and (one is other or _equal(one, other))


def _constants(kernel: Any) -> Iterator[str]:
    return (param.name for param in kernel.params if param.is_constexpr)


def _close(one: Any, other: Any) -> bool:
    """Anything but floats was compared before."""
    return not isinstance(one, float) or math.isclose(one, other)


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except ValueError:  # arrays, which no kernel takes: its compiler will say so
        return False


def substituted(value: Value, symbols: Mapping[Any, Any]) -> Value:
    """An argument with expressions in the place of symbols."""
    if isinstance(value, Expr):
        return cast(Any, value).xreplace(symbols)
    if isinstance(value, TensorValue):
        return replace(value, offset=substituted(value.offset, symbols))  # pyright: ignore[reportArgumentType]
    if isinstance(value, DescriptorValue):
        shape, strides = (tuple(substituted(size, symbols) for size in sizes) for sizes in (value.shape, value.strides))
        return replace(value, shape=shape, strides=strides)  # pyright: ignore[reportArgumentType]
    items = items_of(value)
    return value if items is None else tuple(substituted(item, symbols) for item in items)


def anonymous(value: Any) -> Any:
    """A launch or an argument of it, whichever memory its tensors are: no bytes depend on that."""
    if isinstance(value, CapturedLaunch):
        return replace(value, arguments={name: anonymous(one) for name, one in value.arguments.items()})
    if isinstance(value, TensorValue):
        return replace(value, storage=0)
    if isinstance(value, DescriptorValue):
        return replace(value, base=anonymous(value.base))
    items = items_of(value)
    return value if items is None else tuple(map(anonymous, items))


def items_of(value: Any) -> tuple[Any, ...] | None:
    """The items of a tuple or list; None for anything else."""
    return tuple(cast("Sequence[Any]", value)) if isinstance(value, (tuple, list)) else None


def tensor_of(value: Any) -> Any:
    """The tensors behind an argument: under a descriptor, a reinterpretation, or in a tuple."""
    items = items_of(value)
    return [tensor_of(item) for item in items] if items is not None else getattr(value, "base", value)


def is_tensor(value: Any) -> bool:
    """Whether an argument is a tensor, or one of Triton's reinterpretations of it."""
    return isinstance(getattr(value, "base", value), torch.Tensor) and not hasattr(value, "block_shape")
