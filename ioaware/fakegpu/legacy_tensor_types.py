"""Answer host code that makes tensors by their types.

`torch.FloatTensor(n)` and `torch.Tensor([1.0])` are on the host, `torch.cuda.FloatTensor(n)` on the GPU. No mode of torch sees
them made.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch

from ioaware.fakegpu.host_tensors import CPU, CUDA, HostTensors
from ioaware.fakegpu.replaced_names import replaced_names

_torch: Any = torch
_Tensor: Any = torch.Tensor
NAMES = tuple(
    f"{kind}Tensor" for kind in ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool")
)


class _TensorType(type):
    """Make tensors of a dtype and a device, and recognise them."""

    plain: Any
    """The type of tensors on the CPU."""
    place: torch.device
    note: Any
    """Note where a tensor is, by the arguments that made it."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = cls.plain(*args, **kwargs)
        cls.note(args, made)
        return made

    def __instancecheck__(cls, instance: Any) -> bool:
        is_same = isinstance(instance, torch.Tensor) and instance.dtype is cls.plain.dtype
        return is_same and instance.device.type == cls.place.type

    @property
    def dtype(cls) -> torch.dtype:
        return cls.plain.dtype

    @property
    def is_cuda(cls) -> bool:
        return cls.place is CUDA


@contextmanager
def legacy_tensor_types(host_tensors: HostTensors | None) -> Generator[None]:
    """Inside the block, note where tensors are that host code makes by their types."""

    def on_host(args: tuple[Any, ...], made: Any) -> None:
        if host_tensors is None:
            return
        if args and isinstance(args[0], torch.Tensor):
            host_tensors.follow(args[0], made)
        else:
            host_tensors.add(made)

    def on_gpu(args: tuple[Any, ...], made: Any) -> None: ...

    def make(*args: Any, **kwargs: Any) -> Any:  # torch.compile looks at the names of its parameters
        if args[0] is not torch.Tensor and len(args) == 2 and isinstance(args[1], torch.Tensor):
            return args[1].as_subclass(args[0])  # the plain function raises below a mode that sees the new tensor
        made = plain(*args, **kwargs)
        if args[0] is torch.Tensor:
            on_host(args[1:], made)
        return made

    replaced: dict[Any, Any] = {}
    for name in NAMES:
        kind = getattr(torch, name)
        for owner, place, note in ((torch, CPU, on_host), (_torch.cuda, CUDA, on_gpu)):
            names = {"plain": kind, "place": place, "note": staticmethod(note), "__module__": owner.__name__}
            replaced[getattr(owner, name)] = _TensorType(name, (), names)
    with replaced_names(replaced, (torch, torch.cuda)) as patches:
        plain: Any = _Tensor.__new__
        patches.set(torch.Tensor, "__new__", make)
        yield


def conversion(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return the arguments of `Tensor.to` that convert as `Tensor.type`.

    None where the type is a dtype.
    """
    tensor, kind = (*args, kwargs.get("dtype"))[:2]
    if isinstance(kind, str) and kind.rpartition(".")[2] in NAMES:
        place = CUDA if ".cuda." in kind else CPU
        return tensor, place, getattr(torch, kind.rpartition(".")[2]).dtype
    return (tensor, kind.place, kind.dtype) if isinstance(kind, _TensorType) else None
