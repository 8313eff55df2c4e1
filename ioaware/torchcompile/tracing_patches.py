"""Let dynamo trace tensors of the fake GPU.

They are on the CPU, with the sizes and the device that host code sees.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.autograd as autograd
import torch.autograd.graph as _graph
from torch._guards import TracingContext
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.meta_utils import MetaTensorDescriber

from ioaware._monkeypatch import Patches
from ioaware.fakegpu.cuda_functions import on_cpu
from ioaware.fakegpu.cuda_stand_in import StandIn
from ioaware.fakegpu.host_tensors import CUDA

graph: Any = _graph


@dataclass
class Phase:
    """Which part of a compilation runs.

    It is tracing on the CPU, or the passes over a graph of the GPU.
    """

    is_tracing: bool = False

    @contextmanager
    def set_to(self, is_tracing: bool) -> Generator[None]:
        """Be in this part inside the block."""
        before, self.is_tracing = self.is_tracing, is_tracing
        try:
            yield
        finally:
            self.is_tracing = before


def let_the_gpu_answer(patches: Patches, stand_in: StandIn, phase: Phase) -> None:
    """Let tracing see tensors on a GPU where host code asks.

    The devices that host code names map to the CPU.
    """
    from torch._dynamo import device_interface
    from torch._dynamo.variables.tensor import TensorVariable

    properties = stand_in.torch_properties()
    interface: Any = device_interface.CudaInterface
    answers: dict[str, Any] = {
        "get_device_properties": properties,
        "is_available": True,
        "get_compute_capability": stand_in.target.arch,
        "is_triton_capable": True,
        "raise_if_triton_unavailable": None,
        "current_device": CUDA.index,
    }
    for name, value in answers.items():
        patches.set(interface, name, staticmethod(partial(_answer, value)))
    patches.set(interface.Worker, "get_device_properties", staticmethod(partial(_answer, properties)))
    patches.set(torch.cuda, "_lazy_init", lambda: None)
    patches.set(fake_tensor, "init_gpu_context", partial(_answer, None))  # which would look for a driver
    patches.set(FakeTensor, "__getitem__", _item)
    patches.set(FakeTensor, "copy_", _copy)
    patches.set(autograd, "_engine_run_backward", graph._engine_run_backward)  # the modes stay aside
    patches.set(FakeTensorMode, "avoid_device_init", property(lambda _: True))  # pyright: ignore[reportUnknownLambdaType]

    def specialize(value: Any) -> dict[str, Any]:
        return plain(value) | {"device": CUDA}

    def dispatch(mode: Any, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        if phase.is_tracing:
            args = [on_cpu(value) for value in args]
            kwargs = {name: on_cpu(value) for name, value in (kwargs or {}).items()}
        return plain_dispatch(mode, func, types, args, kwargs)

    known: dict[int, tuple[Any, Any]] = {}  # the compiler asks again, and must get the same tensor

    def from_tensor(mode: Any, tensor: Any, **how: Any) -> Any:
        if isinstance(tensor, FakeTensor) and tensor.fake_mode is not mode:
            contexts = getattr(TracingContext.try_get(), "tensor_to_context", {})
            if not how.get("source") and tensor in contexts:
                how |= {"symbolic_context": contexts[tensor], "source": contexts[tensor].tensor_source}
            tensor = known.setdefault(id(tensor), (tensor, _without_symbols(tensor)))[1]
        return plain_from_tensor(mode, tensor, **how)

    def describe(describer: Any, tensor: Any, **how: Any) -> Any:
        description = plain_describe(describer, tensor, **how)
        is_ours = isinstance(tensor, FakeTensor) and tensor.fake_mode.shape_env is None
        return replace(description, fake_mode=None) if is_ours else description

    plain: Callable[..., Any] = patches.set(TensorVariable, "specialize", staticmethod(specialize))
    plain_describe: Callable[..., Any] = patches.set(MetaTensorDescriber, "describe_tensor", describe)
    plain_dispatch: Callable[..., Any] = patches.set(FakeTensorMode, "dispatch", dispatch)
    plain_from_tensor: Callable[..., Any] = patches.set(FakeTensorMode, "from_tensor", from_tensor)


def _answer(value: Any, *_: Any) -> Any:
    return value


def _item(tensor: Any, index: Any) -> Any:
    """Index a fake tensor.

    By an integer it goes without torch's C++ code, which looks for a driver of its device.
    """
    return torch.select(tensor, 0, index) if type(index) is int else torch.Tensor.__getitem__(tensor, index)


def _copy(tensor: Any, source: Any, non_blocking: bool = False) -> Any:
    """Copy into a fake tensor.

    It goes without torch's method, which looks for a driver of the device.
    """
    return torch.ops.aten.copy_.default(tensor, source, non_blocking)


def _without_symbols(tensor: Any) -> Any:
    """Return a tensor of another fake mode in a mode without symbols.

    Its sizes are plain integers.

    Why: the compiler takes it for a tensor with memory, and decides itself which sizes are symbols.
    """
    sizes, strides = (tuple(map(int, values)) for values in (tensor.size(), tensor.stride()))
    with FakeTensorMode():
        plain: Any = torch.empty(
            int(tensor.untyped_storage().nbytes()) // tensor.element_size(), dtype=tensor.dtype, device="cpu"
        )
        plain = plain.as_strided(sizes, strides, int(tensor.storage_offset())).detach()
    return plain.requires_grad_(tensor.requires_grad)
