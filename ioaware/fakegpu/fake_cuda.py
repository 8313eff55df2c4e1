"""Answer CUDA host code without a GPU.

It allocates on the CPU and sees the properties of a GPU, by default an H200.

A torch function mode redirects each call to torch: device `cuda` becomes the CPU, `tensor.device` is `cuda:0`. Functions of
`torch.cuda` and Triton's driver, which a mode cannot intercept, are replaced inside the block.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
import torch._tensor_str as _tensor_text
import torch.autograd as autograd
import torch.utils.checkpoint as checkpoint
from torch._library.triton import set_wrap_triton_enabled
from torch.overrides import TorchFunctionMode
from torch.utils import _device as _torch_device
from triton import testing as _testing

from ioaware._monkeypatch import Patches, imported_unpatched
from ioaware.fakegpu.autocast import autocast_on_cpu
from ioaware.fakegpu.cuda_functions import (
    CudaGenerator,
    always,
    max_clocks,
    named_on_cpu,
    on_cpu,
    replace_driver,
    torch_accelerator,
    torch_cuda,
)
from ioaware.fakegpu.cuda_stand_in import CUDA_VERSION, CUDNN_VERSION, StandIn
from ioaware.fakegpu.host_caller import is_library
from ioaware.fakegpu.host_tensors import CPU, CUDA, HostTensors, host_work
from ioaware.fakegpu.legacy_tensor_types import conversion, legacy_tensor_types
from ioaware.fakegpu.replaced_names import replaced_names


@contextmanager
def cuda_on_cpu(host_tensors: HostTensors | None = None, stand_in: StandIn | None = None) -> Generator[StandIn]:
    """Make host code inside the block see one GPU while its tensors are on the CPU.

    All of them seem to be the GPU's, or all but those in `host_tensors`, where new ones are added. What
    depends on the GPU is noted in `stand_in`.

    Everything is restored on leaving. Kernels wrapped for torch.compile (`torch.library.wrap_triton`) launch directly.
    """
    stand_in = stand_in or StandIn()
    mode = _Redirect(host_tensors)
    with (
        Patches() as patches,
        mode,
        set_wrap_triton_enabled(False),
        autocast_on_cpu(),
        legacy_tensor_types(host_tensors),
        replaced_names({testing.nvsmi: max_clocks(stand_in)}, (testing,)),
        imported_unpatched(COMPILER),  # it keeps tables of functions, also after the block
    ):
        for name, value in torch_cuda(stand_in).items():
            if hasattr(torch.cuda, name):
                patches.set(torch.cuda, name, value)
        patches.set(_Tensor, "record_stream", always(None))  # its stream is not torch's
        _replace_storages(host_tensors, patches)
        if host_tensors:
            _follow_unseen(host_tensors, patches)
        for name, value in torch_accelerator(stand_in).items():
            if hasattr(torch.accelerator, name):
                patches.set(torch.accelerator, name, value)
        for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
            patches.set(torch.cuda.nvtx, name, always(None))
        patches.set(torch.version, "cuda", CUDA_VERSION)
        patches.set(torch.backends.cuda, "is_built", always(value=True))
        patches.set(torch.backends.cudnn, "is_available", always(value=True))
        patches.set(torch.backends.cudnn, "version", always(CUDNN_VERSION))
        patches.set(torch, "Generator", CudaGenerator)
        patches.set(checkpoint, "_allowed_determinism_checks_to_fns", {"default": _metadata, "none": always(None)})
        _follow_into_backward(mode, patches)
        replace_driver(stand_in, patches)
        yield stand_in


Call = Callable[..., Any]
_Tensor: Any = torch.Tensor
torch_device: Any = _torch_device
testing: Any = _testing
_tensor_str: Any = _tensor_text
native: Any = torch._C  # pyright: ignore[reportPrivateUsage]
COMPILER = "torch._dynamo"

# Results of tensor methods and attribute getters that would reveal the CPU, for tensors of the GPU and of the host.
PLACES: dict[Any, tuple[Any, Any]] = {
    _Tensor.is_cuda.__get__: (True, False),
    _Tensor.is_cpu.__get__: (False, True),
    _Tensor.device.__get__: (CUDA, CPU),
    _Tensor.get_device: (CUDA.index, -1),
}
PLAIN_STORAGE: dict[str, Any] = {name: getattr(torch.UntypedStorage, name) for name in ("device", "is_cuda")}
SAME_TENSOR = frozenset({_Tensor.cuda, _Tensor.pin_memory})


class _Redirect(TorchFunctionMode):
    """Redirect allocations to the CPU.

    A mode is inactive in Python code below a torch function: see `_follow_into_backward`.
    """

    def __init__(self, host_tensors: HostTensors | None) -> None:
        super().__init__()
        self._host = host_tensors

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if func in PLACES:
            on_gpu, on_host = PLACES[func]
            return on_host if self._host and self._host.asked(args[0]) else on_gpu
        if func is _Tensor.is_pinned and self._host:
            return self._host.is_pinned(args[0])
        if func is _Tensor.type and len(args) == 1 and not named:
            return func(*args).replace("torch.", "torch." if self._host and self._host.asked(args[0]) else "torch.cuda.")
        if func is _Tensor.__repr__ or (func is _Tensor.__format__ and args[0].dim() and args[1:] == ("",)):
            with self:
                return _tensor_str._str(args[0], **named)
        if func is _Tensor.type and (converted := conversion(args, named)):
            func, args, named = _Tensor.to, converted, {}
        if func in (torch.device, native._nn._parse_to):
            return func(*args, **named)
        if self._host:
            return self._host.call(func, args, named, lambda: _redirected(func, args, named))
        return _redirected(func, args, named)


def _redirected(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of torch with the CPU in place of the GPU."""
    if func in SAME_TENSOR:
        return args[0]
    named = {name: named_on_cpu(value) if name == "device" else on_cpu(value) for name, value in kwargs.items()}
    named.pop("pin_memory", None)
    if func in torch_device._device_constructors():  # else torch.set_default_device would apply below this mode
        named["device"] = named.get("device") or CPU
    convert = named_on_cpu if func is _Tensor.to else on_cpu
    return func(*map(convert, args), **named)


def _replace_storages(host_tensors: HostTensors | None, patches: Patches) -> None:
    """Let the memory of a tensor be on the GPU too, to host code."""

    def answering(name: str, on_gpu: Any, on_host: Any) -> property:
        def answer(storage: Any) -> Any:
            asks = sys._getframe(1).f_code.co_filename  # pyright: ignore[reportPrivateUsage]
            memory = getattr(storage, "_untyped_storage", storage)
            if is_library(asks):
                return PLAIN_STORAGE[name].__get__(memory)
            return on_host if host_tensors and host_tensors.asked_storage(memory) else on_gpu

        return property(answer)

    for kind in (torch.UntypedStorage, torch.TypedStorage):
        patches.set(kind, "device", answering("device", CUDA, CPU))
        patches.set(kind, "is_cuda", answering("is_cuda", on_gpu=True, on_host=False))


def _follow_unseen(host_tensors: HostTensors, patches: Patches) -> None:
    """Note where tensors are that no mode sees made.

    They are parameters, and those in memory of NumPy.
    """

    def make(kind: Any, data: Any = None, requires_grad: bool = True) -> Any:
        made = plain(kind, data, requires_grad)
        host_tensors.follow(data, made)
        return made

    plain: Call = patches.set(torch.nn.Parameter, "__new__", staticmethod(make))
    for name in ("from_numpy", "frombuffer"):
        patches.set(torch, name, host_tensors.adding(getattr(torch, name)))


def _metadata(tensor: torch.Tensor) -> dict[str, Any]:
    """Return what a checkpoint's recomputation has to agree in.

    The device is left out: C++ code sees it as the CPU.
    """
    return {"shape": tensor.shape, "dtype": tensor.dtype}


def _follow_into_backward(mode: _Redirect, patches: Patches) -> None:
    """Enter the mode again in backward functions: Python code below `Tensor.backward`."""

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        with mode, host_work(is_host=False):
            return plain(*args, **kwargs)

    plain: Call = patches.set(autograd, "_engine_run_backward", run_backward)
