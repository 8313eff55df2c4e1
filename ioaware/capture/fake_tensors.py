"""Tensors without memory: torch's fake tensors, told what they need to know of a GPU that is not there and of chance."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from ioaware.fakegpu.fake_cuda import on_cpu
from ioaware.fakegpu.storages import OperatorMode


class Memoryless(FakeTensorMode):
    """Every tensor is one without memory on the CPU, also those that a custom operator's shape function makes: it runs below
    all other modes, and its `device=x.device` names the GPU."""

    def __init__(self, shape_env: Any) -> None:
        super().__init__(shape_env=shape_env, allow_non_fake_inputs=True)
        self.cache_enabled = False  # to describe an operator by its symbolic sizes takes longer than to run it again

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch.compile's machinery is loaded, which takes seconds, to keep it out

    def __torch_dispatch__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given: dict[str, Any] = kwargs or {}
        named = {name: on_cpu(value) for name, value in given.items()}
        return self.dispatch(func, types, tuple(map(on_cpu, args)), named)  # its own way there loads torch.compile's machinery


class WithoutGenerators(TorchFunctionMode):
    """Random tensors have no data here, and torch cannot draw them of symbolic sizes from a generator of the user's."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **{name: value for name, value in (kwargs or {}).items() if name != "generator"})


class RandomLike(OperatorMode):
    """`randn_like` of symbolic sizes fails inside torch for 16-bit dtypes; of tensors without data any other tensor will do."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.aten.randn_like.default:
            func = torch.ops.aten.empty_like.default
        return func(*args, **(kwargs or {}))
