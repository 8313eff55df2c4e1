"""Captured launches and torch operators, and their comparison.

They are in the parameters of the host function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import sympy
import torch
from sympy import Expr

from ioaware.symints.guards import Condition


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A tensor argument.

    Sizes, strides and `offset` (of its first element in its storage) count elements.
    """

    dtype: Any
    """torch's dtype, or Triton's for `triton.reinterpret`."""
    itemsize: int
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    offset: Expr
    storage: int
    """Number of the storage, equal for tensors that share memory."""
    storage_bytes: Expr


@dataclass(frozen=True, slots=True)
class DescriptorValue:
    """A host-side tensor descriptor.

    `template` is the object without its tensor and sizes.
    """

    base: TensorValue
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    block_shape: tuple[int, ...]
    template: Any


Value: TypeAlias = "Expr | bool | float | TensorValue | DescriptorValue | tuple[Value, ...] | object | None"
"""Argument: integers as expressions of the parameters.

Other constexpr values are unchanged.
"""


@dataclass(frozen=True, slots=True)
class CapturedLaunch:
    """A kernel launch.

    `options` are num_warps and other compile options; constexprs are plain values.
    """

    kernel: Any
    arguments: Mapping[str, Value]
    grid: tuple[Expr, Expr, Expr]
    options: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    """Conditions that its constexprs impose on the parameters."""
    configuration: Mapping[str, Any] | None = None
    """What an autotuner chose for it."""
    alternatives: tuple[Mapping[str, Any], ...] = ()
    """All configurations of that autotuner, before it prunes any."""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of the arguments that are parameters of a module.

    For example `{"w_ptr": "norm.weight"}`.
    """

    @property
    def name(self) -> str:
        """The kernel's function name."""
        return str(self.kernel.fn.__name__)

    @property
    def file(self) -> str:
        """The file of the kernel's source."""
        return str(self.kernel.fn.__code__.co_filename)


@dataclass(frozen=True, slots=True)
class CapturedOperator:
    """A torch operator, with lower bounds of the bytes it reads and writes.

    `flops` are those of matrix products, `matmul_type` their element type in MLIR; None without any.
    """

    name: str
    read_bytes: Expr
    write_bytes: Expr
    flops: Expr | None = None
    matmul_type: str = ""


Event: TypeAlias = CapturedLaunch | CapturedOperator


def launch_configuration(launch: CapturedLaunch) -> str:
    """Return a key of the kernel, its constexprs and its compile options.

    It is what an autotuner chooses from.
    """
    constants = sorted((name, launch.arguments[name]) for name in _constants(launch.kernel) if name in launch.arguments)
    return repr((launch.name, constants, sorted(launch.options.items())))


def agree(symbolic: list[Event], plain: list[Event], at: Callable[[Expr], Expr]) -> bool:
    """Return whether a symbolic run equals the plain run launch by launch.

    It is compared `at` the given values.
    """
    if len(symbolic) != len(plain):
        return False
    return all(_same(one, other, at) for one, other in zip(symbolic, plain, strict=True))


def without_addresses(events: Sequence[Event], first: int) -> list[Event]:
    """Return the events with 0 for integers that are addresses.

    They are at least `first`. Two runs allocate at different addresses.
    """

    def known(value: Value) -> Value:
        is_address = isinstance(value, Expr) and value.is_Integer and int(cast(Any, value)) >= first
        return sympy.S.Zero if is_address else value

    return [
        replace(event, arguments={name: known(value) for name, value in event.arguments.items()})
        if isinstance(event, CapturedLaunch)
        else event
        for event in events
    ]


def _same(one: Any, other: Any, at: Callable[[Expr], Expr]) -> bool:
    if isinstance(one, CapturedLaunch) and isinstance(other, CapturedLaunch):
        return (
            one.kernel.fn.__code__ == other.kernel.fn.__code__  # host code may redefine its kernel in each call
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
    """Compare two arguments, except floats.

    No address, mask or loop bound is a float unless it is constexpr.
    """
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
    """Compare two floats approximately; other kinds are compared elsewhere."""
    return not isinstance(one, float) or math.isclose(one, other)


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except (RuntimeError, ValueError):  # tensors and arrays, which no kernel accepts as constants: its compiler raises
        return False


def substitute(value: Value, symbols: Mapping[Any, Any]) -> Value:
    """Substitute expressions for the symbols of an argument."""
    if isinstance(value, Expr):
        return cast(Any, value).xreplace(symbols)
    if isinstance(value, TensorValue):
        offset, storage_bytes = substitute(value.offset, symbols), substitute(value.storage_bytes, symbols)
        return replace(value, offset=offset, storage_bytes=storage_bytes)  # pyright: ignore[reportArgumentType]
    if isinstance(value, DescriptorValue):
        shape, strides = (tuple(substitute(size, symbols) for size in sizes) for sizes in (value.shape, value.strides))
        return replace(value, shape=shape, strides=strides)  # pyright: ignore[reportArgumentType]
    items = items_of(value)
    return value if items is None else with_items(value, [substitute(item, symbols) for item in items])


def without_storage_numbers(value: Any) -> Any:
    """Return a launch or argument with all storage numbers 0.

    It can then be compared regardless of memory.
    """
    if isinstance(value, CapturedLaunch):
        return replace(value, arguments={name: without_storage_numbers(one) for name, one in value.arguments.items()})
    if isinstance(value, TensorValue):
        return replace(value, storage=0)
    if isinstance(value, DescriptorValue):
        return replace(value, base=without_storage_numbers(value.base))
    items = items_of(value)
    return value if items is None else with_items(value, list(map(without_storage_numbers, items)))


def items_of(value: Any) -> tuple[Any, ...] | None:
    """Return the items of a tuple or list; None for anything else."""
    return tuple(cast("Sequence[Any]", value)) if isinstance(value, (tuple, list)) else None


def with_items(value: Any, items: Sequence[Any]) -> tuple[Any, ...]:
    """Return a tuple of these items, with the names of a named tuple's fields."""
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def tensor_of(value: Any) -> Any:
    """Return the tensors of an argument.

    It may be a descriptor, a reinterpretation, or a tuple.
    """
    items = items_of(value)
    return [tensor_of(item) for item in items] if items is not None else getattr(value, "base", value)


def is_tensor(value: Any) -> bool:
    """Return whether an argument is a tensor, or Triton's reinterpretation of one."""
    return isinstance(getattr(value, "base", value), torch.Tensor) and not hasattr(value, "block_shape")
