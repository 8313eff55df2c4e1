"""Assume the bytes of torch operators between kernels.

Each input is read once, each output written once.

That is the least an operator can do; its own kernels are not analysed. Views and allocations move nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from ioaware.fakegpu.aten.aten_flops import operator_products
from ioaware.fakegpu.host_tensors import FROM_HOST, is_host_work, transfer
from ioaware.fakegpu.storages import OperatorMode, storages, strided_tensors
from ioaware.result import Launch, Traffic

NOTE = "assumed: inputs read once, outputs written once"
ALLOCATIONS = frozenset(
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "set_")
)
CPU_ATTENTION: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
RESIZE = "aten::resize_"
NUMBER_TO_HOST = "aten::_local_scalar_dense"
"""Operator of `item()`.

The copy to the host is counted where host code asks for the number, and not where torch itself does.
"""
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
"""In-place operators that do not read what they overwrite."""


def assumed_launch(operator: str, read_bytes: int, write_bytes: int, products: tuple[int, str] | None) -> Launch:
    """Return a torch operator as a launch; `products` are FLOPs and their type."""
    moved = Traffic(read_bytes, write_bytes)
    flops, types = (products[0], (products[1],)) if products else (None, ())
    return Launch(operator, origin="torch", requested=moved, flops=flops, matmul_types=types, exact=False, notes=(NOTE,))


Describe = Callable[[str, Any, Any, Any], Any]


class OperatorRecorder(OperatorMode):
    """Append a description of each operator that moves data to `launches`.

    The entry is `describe(name, read_bytes, write_bytes, products)`.

    An operator made of Triton kernels is counted as those kernels, which append themselves.
    """

    def __init__(self, launches: list[Any], describe: Describe = assumed_launch) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._launches = launches
        self._describe = describe

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        before = len(self._launches)
        resized = _bytes_held(args[0]) if func._schema.name == RESIZE else 0
        outcome = func(*args, **(kwargs or {}))
        if len(self._launches) > before:
            return outcome
        if direction := transfer():
            moved = _transferred(direction, operator_traffic(func, args, kwargs or {}, outcome))
            if moved is not None:
                self._launches.append(self._describe(direction, *moved, None))
        elif not is_host_work():
            traffic = _taken_over(resized, outcome) if resized else operator_traffic(func, args, kwargs or {}, outcome)
            if traffic is not None:
                products = operator_products(func, args, kwargs or {}, outcome)
                self._launches.append(self._describe(shown_name(func), *traffic, products))
        return outcome


def _bytes_held(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage().nbytes()


def _taken_over(before: Any, tensor: Any) -> tuple[Any, Any] | None:
    """Return the bytes that `resize_` copies into a larger storage."""
    return (before, before) if _bytes_held(tensor) > before else None


def shown_name(func: Any) -> str:
    """Return an operator's name for a reader.

    torch.compile traces attention as a CPU's operator; which one a GPU runs for it depends on the type.
    """
    return "aten.scaled_dot_product_attention.default" if func is CPU_ATTENTION else str(func)


def _transferred(direction: str, traffic: tuple[Any, Any] | None) -> tuple[Any, Any] | None:
    """Return the bytes of the GPU's memory that a transfer moves.

    A copy from the host writes them, one to the host reads them. So does what `record_read` records.
    """
    if traffic is None:
        return None
    return (0, traffic[1]) if direction == FROM_HOST else (traffic[0], 0)


def operator_traffic(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outcome: object) -> tuple[Any, Any] | None:
    """Return the bytes an operator reads and writes.

    None for a view, an allocation or a metadata query.

    The bytes are integers, or SymInts where the tensors have symbolic sizes.
    """
    name: str = func._schema.name
    if name in (*ALLOCATIONS, NUMBER_TO_HOST) or name.startswith("prim::") or _is_view(func):
        return None
    read_bytes = sum(_distinct(tensors_read(func, args, kwargs)))
    shared = storages((args, kwargs))
    outputs = strided_tensors(outcome)
    fresh = [tensor for tensor in outputs if not storages(tensor).keys() <= shared.keys()]
    targets = strided_tensors([value for _, value in _written(func, args, kwargs)])
    write_bytes = sum(_distinct([*targets, *fresh]))
    is_view = not write_bytes and bool(outputs)
    return None if is_view or read_bytes + write_bytes == 0 else (read_bytes, write_bytes)


def tensors_read(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the tensors among an operator's arguments whose elements it reads."""
    name: str = func._schema.name
    if takes_shape_only(name):
        return []
    overwritten = [value for argument, value in _written(func, args, kwargs) if argument.kwarg_only or name in OVERWRITES]
    not_read = {id(tensor) for tensor in strided_tensors(overwritten)}
    return [tensor for tensor in strided_tensors((args, kwargs)) if id(tensor) not in not_read]


def takes_shape_only(operator: str) -> bool:
    """Return whether an operator uses only the metadata of its operand.

    An example is `ones_like`.
    """
    return operator.endswith("_like") or operator.startswith("aten::new_")


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Return the arguments that an operator writes, with their values."""
    return [(argument, value) for argument, value in _arguments(func, args, kwargs) if _is_written(argument)]


def _arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield each argument of the operator's schema that was passed, with its value."""
    for position, argument in enumerate(func._schema.arguments):
        if position < len(args):
            yield argument, args[position]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]


def _is_view(func: Any) -> bool:
    """Return whether every output is a view of an input, by the schema.

    Why not by storage: torch may make a fake copy.
    """
    outputs = [output.alias_info for output in func._schema.returns]
    return bool(outputs) and all(alias is not None and not alias.is_write for alias in outputs)


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _distinct(tensors: Iterable[torch.Tensor]) -> list[Any]:
    """Return the bytes of each distinct view.

    A dimension of stride 0 repeats the same elements.
    """
    given = list(tensors)
    if len(given) > 1:  # the text of symbolic sizes takes long
        given = list({_view(tensor): tensor for tensor in given}.values())
    return [
        tensor.element_size()
        * math.prod(size for size, stride in zip(tensor.size(), tensor.stride(), strict=True) if stride or not size)
        for tensor in given
    ]


def _view(tensor: torch.Tensor) -> tuple[int, str, str, str]:
    storage: Any = tensor.untyped_storage()
    return storage._cdata, str(tensor.storage_offset()), str(tensor.size()), str(tensor.stride())
