"""Run the code that torch.compile generates on the fake GPU.

Its allocations, its library calls and its kernels are covered.

Each generated kernel becomes a Triton autotuner over the configurations that the compiler leaves to choose from. It is then
launched, counted and configured like any autotuned kernel.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from copy import copy
from functools import cache
from math import prod
from tempfile import TemporaryDirectory
from typing import Any

import torch
from triton.runtime import autotuner as _autotuner

from ioaware._monkeypatch import Patches
from ioaware.fakegpu.host_tensors import CUDA

_torch: Any = torch
native: Any = _torch._C
Autotuner: Any = _autotuner.Autotuner
DIRECTORY = "TORCHINDUCTOR_CACHE_DIR"
SMALLEST_SCALED_BLOCK = 64
"""Elements of a reduction's block that are not halved any more."""
ALIGNMENT = 16
"""Bytes to which a generated kernel's pointers are aligned.

An input that is not is copied.
"""
STREAM_AND_DEVICE = (
    "_cuda_getCurrentRawStream",
    "_cuda_getDevice",
    "_cuda_setDevice",
    "_cuda_exchangeDevice",
    "_cuda_maybeExchangeDevice",
)


class GeneratedKernel(Autotuner):
    """A kernel of the compiler, or a kernel of the user in a compiled function.

    The wrapper code launches it by `run(*arguments, stream=...)`.
    """

    def __init__(self, source: Any) -> None:
        """Take function, configurations and grid from the compiler's own autotuner object."""
        from torch._inductor.runtime.hints import HeuristicType

        Autotuner.__init__(self, source.fn, source.fn.arg_names, source.configs, [], None, None)
        self.is_generated = source.heuristic_type != HeuristicType.USER_AUTOTUNE
        self._meta = source.inductor_meta
        self._constants: dict[str, Any] = {} if self.is_generated else dict(source.triton_meta["constants"])
        self._halves = scale_reduction_blocks(source)

    def prune_configs(self, kwargs: dict[str, Any]) -> list[Any]:
        """Return the compiler's configurations, then those that its tuner adds."""
        return [*Autotuner.prune_configs(self, kwargs), *self._halves]

    def run(self, *args: Any, stream: Any = None, grid: Any = None, warmup: bool = False, **kwargs: Any) -> Any:  # noqa: ARG002
        """Launch with the first configuration and the grid of the compiler's metadata."""
        config = self.configs[0].all_kwargs()
        extra = self._meta.get("extra_launcher_args") or ()
        given, for_grid = args[: len(args) - len(extra)], dict(zip(extra, args[len(args) - len(extra) :], strict=True))
        bound = {**dict(zip(self._positional(config), given, strict=False)), **self._constants, **kwargs, **config}

        def grid_of(meta: dict[str, Any]) -> tuple[Any, ...]:
            return _grid(self._meta, {**meta, **config, **for_grid})

        return self.fn.run(grid=grid_of, warmup=False, **bound)

    def _positional(self, config: dict[str, Any]) -> list[str]:
        """Return the names of the arguments that the wrapper code passes.

        It leaves out constants that the kernel declares. It passes -1 for None, which `_constants` replaces.
        """
        declared = {self.arg_names[at] for at in self.fn.constexprs} & (self._constants.keys() | config.keys())
        return [name for name in self.arg_names if name not in declared]


def scale_reduction_blocks(source: Any) -> list[Any]:
    """Return configurations that the compiler's tuner adds to a looped reduction.

    Where a kernel takes too many registers on its GPU, the tuner halves the largest block of the reduction, several times.
    It times these configurations too. Source: `_dynamic_scale_rblock` in PyTorch's triton_heuristics.py.
    """
    from torch._inductor.runtime.hints import HeuristicType

    if source.heuristic_type != HeuristicType.REDUCTION or source.inductor_meta.get("persistent_reduction"):
        return []
    found: list[Any] = []
    for config in source.configs:
        blocks = {name: size for name, size in config.kwargs.items() if name.startswith("R")}
        while prod(blocks.values()) > SMALLEST_SCALED_BLOCK:
            largest = max(blocks, key=blocks.__getitem__)
            blocks[largest] //= 2
            smaller = copy(config)
            smaller.kwargs = {**config.kwargs, **blocks}
            found.append(smaller)
    return found


def _grid(meta: Any, bound: dict[str, Any]) -> tuple[Any, ...]:
    """Return the grid of a launch.

    It is given by the compiler's expressions over arguments and block sizes.
    """
    from torch._inductor.runtime import triton_heuristics

    heuristics: Any = triton_heuristics
    return heuristics.GridExpr.from_meta(meta, bound).eval_slow(bound)


@cache
def _directory() -> TemporaryDirectory[str]:
    """Return the directory of generated files; it is removed when the process ends."""
    return TemporaryDirectory(prefix="ioaware-compiled-")


@contextmanager
def own_directory() -> Generator[None]:
    """Let the compiler write its files where none is left behind."""
    before = os.environ.get(DIRECTORY)
    os.environ[DIRECTORY] = _directory().name
    try:
        yield
    finally:
        os.environ.pop(DIRECTORY)
        if before is not None:
            os.environ[DIRECTORY] = before


@contextmanager
def generated_code_loads() -> Generator[None]:
    """Let a file that the compiler wrote be imported inside the block."""
    importlib.import_module("torch._inductor.async_compile")  # what is replaced
    with generated_code_runs(), own_directory():
        yield


@contextmanager
def generated_code_runs() -> Generator[None]:
    """Let generated modules that are loaded inside the block run on the fake GPU."""
    with Patches() as patches:
        for name in STREAM_AND_DEVICE:
            patches.set(native, name, _zero)
        patches.set(torch.cuda, "_DeviceGuard", _no_guard)
        guards: Any = native._dynamo.guards
        patches.set(guards, "_empty_strided_cuda", _empty_strided)
        patches.set(guards, "_reinterpret_tensor", _reinterpret)
        patches.set(guards, "copy_if_misaligned", _aligned)
        for name in ("assert_size_stride", "assert_alignment"):
            patches.set(guards, name, _nothing)
        if "torch._inductor" in sys.modules:
            load_kernels_as_autotuners(patches)
        yield


def load_kernels_as_autotuners(patches: Patches) -> None:
    """Replace the compiler's way to load a kernel.

    The compiler would compile and time it on a GPU.
    """
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.runtime import triton_helpers

    cache: Any = PyCodeCache

    def load(_: Any, name: str, source: str, device_str: str = "cuda") -> GeneratedKernel:  # noqa: ARG001
        return GeneratedKernel(getattr(cache.load(source), name))

    patches.set(triton_helpers, "set_driver_to_gpu", _nothing)
    patches.set(AsyncCompile, "triton", load)


def _empty_strided(size: Any, stride: Any, dtype: torch.dtype) -> Any:
    return torch.empty_strided(size, stride, dtype=dtype, device=CUDA)


def _reinterpret(tensor: Any, size: Any, stride: Any, offset: Any) -> Any:
    return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)


def _aligned(tensor: Any) -> Any:
    """Return a copy of an unaligned tensor, as generated code makes it on a GPU."""
    return tensor.clone() if tensor.data_ptr() % ALIGNMENT else tensor


def _zero(*_: Any) -> int:
    return 0


def _nothing(*_: Any, **__: Any) -> None: ...


def _no_guard(*_: Any) -> Any:
    return nullcontext()
