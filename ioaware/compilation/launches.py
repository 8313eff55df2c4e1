"""Captured launches and torch operators.

They are in the parameters of the host function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import sympy
import torch
from sympy import Expr

from ioaware.analysis.formulas.functions import positive_symbols
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
    constants = sorted((name, launch.arguments[name]) for name in constexprs(launch.kernel) if name in launch.arguments)
    return repr((launch.name, constants, sorted(launch.options.items())))


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


def constexprs(kernel: Any) -> Iterator[str]:
    """Yield the names of a kernel's constexpr parameters."""
    return (param.name for param in kernel.params if param.is_constexpr)


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


def launch_at(launch: CapturedLaunch, values: Mapping[str, int]) -> CapturedLaunch:
    """Return the launch with numbers for its symbols, as Triton compiles it there.

    An argument of 1 is a constant then, and a loop that steps down by it has iterations.
    """
    numbers = {symbol: sympy.Integer(value) for name, value in values.items() for symbol in positive_symbols(name)}
    arguments = {name: substitute(value, numbers) for name, value in launch.arguments.items()}
    width, height, depth = (cast(Any, size).xreplace(numbers) for size in launch.grid)
    return replace(launch, arguments=arguments, grid=(width, height, depth))


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
