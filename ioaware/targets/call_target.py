"""Build a target from a Python call, with tensor sizes as its parameters."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ioaware.case import Work
from ioaware.errors import UsageError
from ioaware.result import ParamValue
from ioaware.targets.signature import KINDS, Argument
from ioaware.targets.target import Target

_torch: Any = torch


def call_target(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, with_data: bool = False
) -> tuple[Target, dict[str, ParamValue]]:
    """Return the target of `function(*args, **kwargs)`.

    The parameters of that call come with it.

    A tensor argument `x` becomes the sizes `x_0`, `x_1`, ...: the target allocates an empty tensor of those sizes. Where it
    is called with the sizes of `x`, on real tensors, it gets a copy of `x`, and on fake ones the contents of integers.
    Numbers, booleans and strings are parameters under their own names; anything else is passed through. `with_data` copies
    the tensors always. Copies of views of one storage share one. Raises `UsageError` for arguments that the function does
    not take.
    """
    name = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', type(function).__name__)}"
    try:
        bound = inspect.signature(getattr(function, "forward", function)).bind(*args, **kwargs)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} cannot be called like that: {error}", "Give the arguments that it takes.") from error
    bound.apply_defaults()
    positional = list(zip(_labels(bound), bound.args, strict=True))
    named = [*positional, *bound.kwargs.items()]
    params: dict[str, ParamValue] = {}
    sizes: dict[str, list[str]] = {}
    for label, value in named:
        if isinstance(value, torch.Tensor):
            sizes[label] = [_unused_name(f"{label}_{axis}", dict(named)) for axis in range(value.dim())]
            params |= dict(zip(sizes[label], map(int, value.shape), strict=True))
        elif type(value) in KINDS:
            params[label] = value
    shared = _shared_storages(value for _, value in named)

    def call(*, device: str, **values: Any) -> Work:
        copies: dict[int, Any] = {}

        def argument(label: str, value: Any) -> Any:
            if label in sizes and with_data:
                return _copy(value, copies)
            if label in sizes:
                made = _empty_like(value, [values[size] for size in sizes[label]], device)
                return _with_contents(made, value, copies, shared)
            return values.get(label, value)

        arguments = [argument(label, value) for label, value in positional]
        keywords = {label: argument(label, value) for label, value in bound.kwargs.items()}
        made = dict(zip((label for label, _ in positional), arguments, strict=True)) | keywords
        tensors = {label: value for label, value in made.items() if isinstance(value, torch.Tensor)}
        return Work(lambda: function(*arguments, **keywords), arguments=tensors)

    declared = tuple(Argument(label, KINDS[type(value)], value) for label, value in params.items())
    return Target(name, declared, call), params


def _labels(bound: inspect.BoundArguments) -> Iterator[str]:
    """Yield a name for each positional argument.

    It is its parameter's, numbered for `*args`.
    """
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            yield from (f"{name}{position}" for position in range(len(value)))
        elif kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
            yield name


def _unused_name(name: str, taken: Mapping[str, Any]) -> str:
    while name in taken:
        name += "_"
    return name


def _shared_storages(values: Iterable[Any]) -> frozenset[int]:
    """Return the storages that several of the tensors among the values share."""
    counts = Counter(_storage(value) for value in values if isinstance(value, torch.Tensor))
    return frozenset(storage for storage, count in counts.items() if count > 1)


def _with_contents(made: Any, given: Any, copies: dict[int, Any], shared: Container[int]) -> Any:
    """Return `made` with what is known of the contents of `given`.

    A real tensor of other sizes holds zeros. A fake one gets integers, unless another argument is a view of the same memory.
    """
    same_sizes = all(type(size) is int for size in made.shape) and made.shape == given.shape
    has_data = not isinstance(given, FakeTensor) and given.device.type != "meta"
    if not isinstance(made, FakeTensor):
        return _copy(given, copies) if same_sizes and has_data else made.detach().zero_().requires_grad_(given.requires_grad)
    is_index = not given.dtype.is_floating_point and not given.dtype.is_complex
    if same_sizes and has_data and is_index and _storage(given) not in shared:
        made.copy_(given.cpu())
    return made


def _storage(tensor: Any) -> int:
    return tensor.untyped_storage()._cdata


def _copy(tensor: Any, copies: dict[int, Any]) -> Any:
    """Return a copy of a tensor on the CPU, a view of a copy of its storage.

    `copies` holds the storages so far.
    """
    storage = tensor.untyped_storage()
    if storage._cdata not in copies:
        on_cpu = storage.device.type == "cpu"  # the tensor's device may be a fake one
        copies[storage._cdata] = storage.clone() if on_cpu else storage.cpu()
    made = _torch.empty(0, dtype=tensor.dtype, device="cpu")
    made.set_(copies[storage._cdata], tensor.storage_offset(), tensor.size(), tensor.stride())
    return made.requires_grad_(tensor.requires_grad)


def _empty_like(tensor: Any, sizes: list[Any], device: str) -> Any:
    """Return an empty tensor of these sizes with the dimension order of `tensor`.

    A tensor with gaps in memory keeps its strides.
    """
    order = sorted(range(tensor.dim()), key=lambda axis: -tensor.stride(axis))
    if tensor.permute(order).is_contiguous():
        back = [order.index(axis) for axis in range(tensor.dim())]
        made = _torch.empty([sizes[axis] for axis in order], dtype=tensor.dtype, device=device).permute(back)
    else:
        made = _torch.empty_strided(sizes, tensor.stride(), dtype=tensor.dtype, device=device)
    return made.requires_grad_(tensor.requires_grad)
