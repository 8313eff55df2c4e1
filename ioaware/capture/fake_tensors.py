"""Fake-tensor modes for host code written for CUDA.

They handle device arguments, generators and random tensors.
"""

from __future__ import annotations

import logging
import numbers
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode

from ioaware._monkeypatch import Patches
from ioaware.fakegpu.cuda_functions import on_cpu
from ioaware.fakegpu.host_tensors import host_work
from ioaware.fakegpu.storages import OperatorMode
from ioaware.symints.host_line import ReadsDataError, user_line
from ioaware.symints.number_types import SymbolicFloat

modules: Any = torch.nn.Module
_torch: Any = torch


@contextmanager
def failures_unlogged() -> Generator[None]:
    """Inside the block, torch does not log the traceback of a failed operator.

    Why: the exception reaches host code, or a run with plain integers follows.
    """
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


class CudaFakeTensorMode(FakeTensorMode):
    """Make every tensor a fake CPU tensor.

    Those of a custom operator's fake implementation are included.

    Why a mode: such an implementation runs below all other modes, and its `device=x.device` names the GPU.
    """

    def __init__(self, shape_env: Any) -> None:
        super().__init__(shape_env=shape_env, allow_non_fake_inputs=True)
        self.cache_enabled = False  # a cache key with symbolic sizes takes longer than running the operator again

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # True would import torch._dynamo, which takes seconds

    def __torch_dispatch__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given: dict[str, Any] = kwargs or {}
        named = {name: on_cpu(value) for name, value in given.items()}
        return self.dispatch(func, types, tuple(map(on_cpu, args)), named)  # the inherited method imports torch._dynamo


@contextmanager
def module_conversions() -> Generator[None]:
    """Inside the block, let `nn.Module.to` replace fake parameters.

    Similar methods do so too, and the parameters are those in the module.

    Why: torch swaps the contents of two tensors, which it refuses for tensors with weak references, as fake ones have.
    """
    plain = modules._apply
    replaced: dict[int, tuple[Any, Any]] = {}  # a parameter and what stands in its place

    def newest(parameter: Any) -> Any:  # tied weights stay tied
        while id(parameter) in replaced:
            parameter = replaced[id(parameter)][1]
        return parameter

    def convert(module: Any, function: Callable[[Any], Any], recurse: bool = True) -> Any:
        parameters = {name: value for name, value in module._parameters.items() if isinstance(value, FakeTensor)}
        if not parameters:
            return plain(module, function, recurse)
        for child in module.children() if recurse else ():
            child._apply(function)
        for name, parameter in parameters.items():
            present = newest(parameter)
            with torch.no_grad():
                result = function(present)
            if result is not present:
                replaced[id(present)] = (present, torch.nn.Parameter(result, present.requires_grad))
            module._parameters[name] = newest(present)
        for name, buffer in module._buffers.items():
            module._buffers[name] = None if buffer is None else function(buffer)
        return module

    with Patches() as patches:
        patches.set(modules, "_apply", convert)
        yield


@contextmanager
def copies() -> Generator[None]:
    """Inside the block, let the functions of `copy` copy fake tensors.

    Why: torch copies their memory, of which they have none.
    """

    plain: Any = vars(torch.Tensor)["__deepcopy__"]

    def deep_copy(tensor: Any, memo: dict[Any, Any]) -> Any:
        if not tensor.is_leaf:
            return plain(tensor, memo)  # raises
        if id(tensor) not in memo:
            new = memo[id(tensor)] = _copy(tensor, _copied_memory(tensor, memo))
            new.__dict__ |= deepcopy(_own_attributes(tensor, new), memo)
            new.grad = deepcopy(tensor.grad, memo)
        return memo[id(tensor)]

    def shallow_copy(tensor: Any) -> Any:
        new = _copy(tensor, tensor.untyped_storage())
        new.__dict__ |= _own_attributes(tensor, new)
        return new

    with Patches() as patches:
        patches.set(FakeTensor, "__deepcopy__", deep_copy)
        patches.set(FakeTensor, "__copy__", shallow_copy)
        patches.set(FakeTensor, "__reduce_ex__", _not_pickled)
        yield


def _not_pickled(*_: Any) -> Any:
    raise ReadsDataError(
        f"the host function saves or pickles a tensor at {user_line()[0]}, and a derivation has no data to write",
        "Trace it, or leave the copy out where it is derived.",
    )


def _copy(tensor: Any, storage: Any) -> Any:
    """Return a tensor like another one in this memory."""
    with torch.no_grad(), host_work():
        new = tensor.new_empty(0).set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
    new.__class__ = type(tensor)
    return new.requires_grad_(tensor.requires_grad)


def _copied_memory(tensor: Any, memo: dict[Any, Any]) -> Any:
    """Return a copy of the tensor's memory, the same one for tensors that share it.

    That of a parameter is copied by an operator, for each of them.
    """
    with torch.no_grad():
        if isinstance(tensor, torch.nn.Parameter):
            return tensor.detach().clone().untyped_storage()
        storage = tensor.untyped_storage()
        key = ("memory", storage._cdata)
        if key not in memo:
            memory = tensor.new_empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,))
            memo[key] = memory.clone().untyped_storage()
        return memo[key]


def _own_attributes(tensor: Any, new: Any) -> dict[str, Any]:
    """Return the attributes that host code gave a tensor."""
    attributes: dict[str, Any] = tensor.__dict__
    return {name: value for name, value in attributes.items() if name not in vars(new)}


@contextmanager
def symbolic_widths() -> Generator[None]:
    """Inside the block, let torch make and call modules of symbolic widths.

    Why: `nn.Linear` makes a bound of random numbers from its width, and they have no values here. Attention scales by it.
    """
    with Patches() as patches:
        for name in ("init", "functional"):
            patches.set(sys.modules[f"torch.nn.{name}"], "float", SymbolicFloat)
        widths = SimpleNamespace(Integral=(numbers.Integral, torch.SymInt), Number=numbers.Number)
        patches.set(sys.modules["torch.nn.modules.normalization"], "numbers", widths)
        for name in ("uniform_", "normal_"):
            patches.set(torch.Tensor, name, _without_symbols(getattr(torch.Tensor, name)))
        patches.set(sys.modules["torch.nn.init"], "_no_grad_trunc_normal_", _draw_once)
        yield


def _draw_once(tensor: Any, mean: float, std: float, *_: Any, **__: Any) -> Any:
    """Fill a tensor as `trunc_normal_`, which draws until all lie within bounds."""
    with torch.no_grad():
        return tensor.normal_(mean, std)


def _without_symbols(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that draws with 1 for each symbolic number."""

    def function(*args: Any, **kwargs: Any) -> Any:
        plain = [1.0 if isinstance(value, torch.SymFloat) else value for value in (*args, *kwargs.values())]
        return draw(*plain[: len(args)], **dict(zip(kwargs, plain[len(args) :], strict=True)))

    return function


class DropGenerators(TorchFunctionMode):
    """Drop `generator=` arguments.

    torch cannot draw symbolic sizes from them, and fake tensors have no data.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **{name: value for name, value in (kwargs or {}).items() if name != "generator"})


SIZED_BY_DATA = ("aten::_to_sparse", "aten::to_sparse", "aten::_coalesce", "aten::coalesce")
"""Operators whose results data size, by the beginnings of their names.

Of fake tensors they return empty ones.
"""


class EmptyRandomTensors(OperatorMode):
    """Replace `randn` by `empty`, and refuse sparse tensors of unknown size.

    torch fails on `randn_like` with symbolic sizes of 16-bit dtypes, and decomposes `randn` into several operators. Raises
    `ReadsDataError`.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.aten.randn_like.default:
            func = torch.ops.aten.empty_like.default
        if func is torch.ops.aten.randn.default and _holds_normal_numbers((kwargs or {}).get("dtype")):
            func = torch.ops.aten.empty.memory_format
        if func._schema.name.startswith(SIZED_BY_DATA):
            raise ReadsDataError(
                f"the host function makes a sparse tensor at {user_line()[0]}, and data decide how many values it has",
                "Build it from its indices and values, or trace the function.",
            )
        return func(*args, **(kwargs or {}))


def _holds_normal_numbers(dtype: torch.dtype | None) -> bool:
    """Return whether `randn` draws numbers of a dtype; it refuses integers."""
    return dtype is None or dtype.is_floating_point or dtype.is_complex
