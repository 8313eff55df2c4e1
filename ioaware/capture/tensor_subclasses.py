"""Let host code make tensors of its own class from fake tensors.

torch refuses: a fake tensor is of a subclass already. Here the result is of both classes.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ioaware._monkeypatch import Patches

_Tensor: Any = torch.Tensor
set_class: Any = object.__dict__["__class__"].__set__


class _KeepsItsClass(torch.Tensor):
    """Base whose operators return tensors of the same class.

    Those of a fake tensor return fake tensors.
    """

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        return _Tensor.__torch_function__.__func__(cls, func, types, args, kwargs)


def class_in_host_code(tensor: Any) -> Any:
    """Return the class that a fake tensor has to host code."""
    kind = cast("Any", type(tensor))
    if kind is not FakeTensor:
        return kind.class_in_host_code
    return torch.nn.Parameter if isinstance(tensor, torch.nn.Parameter) else torch.Tensor


@contextmanager
def tensor_subclasses() -> Generator[None]:
    """Inside the block, let `as_subclass` and its like accept fake tensors."""
    fakes: dict[Any, Any] = {}

    def of_class(tensor: Any, kind: Any) -> Any:
        if kind is torch.Tensor:
            return tensor
        if kind not in fakes:
            names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "class_in_host_code": kind}
            fakes[kind] = type(str(kind.__name__), (kind, _KeepsItsClass, FakeTensor), names)
        set_class(tensor, fakes[kind])
        return tensor

    def is_new(kind: Any, tensor: Any) -> bool:
        is_own = issubclass(kind, torch.Tensor) and not issubclass(kind, (FakeTensor, torch.nn.Parameter))
        return is_own and isinstance(tensor, FakeTensor)

    def as_subclass(tensor: Any, cls: Any) -> Any:
        kind = getattr(cls, "class_in_host_code", cls)
        if not is_new(kind, tensor):
            return plain_as(tensor, cls)
        with no_classes():
            return of_class(tensor.view_as(tensor), kind)

    def make_subclass(*args: Any, **kwargs: Any) -> Any:  # torch.compile looks at the names of its parameters
        kind, tensor, *rest = args
        if not is_new(kind, tensor):
            return plain_make(*args, **kwargs)
        with no_classes():
            return of_class(tensor.detach().requires_grad_(*rest, *kwargs.values()), kind)

    with Patches() as patches:
        plain_as, plain_make = _Tensor.as_subclass, _Tensor._make_subclass
        patches.set(torch.Tensor, "as_subclass", as_subclass)
        patches.set(torch.Tensor, "_make_subclass", staticmethod(make_subclass))
        yield


no_classes: Any = torch._C.DisableTorchFunctionSubclass  # pyright: ignore[reportPrivateUsage]
