"""Let types of fake tensors and symbols be `torch.Tensor` and `int` in host code.

Host code compares types, names them and looks them up. A fake tensor is of a subclass, and a symbolic integer is none to
Python, which none of that expects.
"""

from __future__ import annotations

import abc
import builtins
import functools
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ioaware._monkeypatch import Patches
from ioaware.capture.tensor_subclasses import class_in_host_code, set_class
from ioaware.fakegpu.host_caller import host_modules, is_library
from ioaware.symints.number_types import type_in_host_code

plain: Any = builtins.type


class _Behaviour(type):
    """Behaves as `type` where host code calls it or compares with it."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not _HostType:  # a metaclass that host code derives from `type`
            return builtins.type.__call__(cls, *args, **kwargs)
        if len(args) != 1 or kwargs:
            return plain(*args, **kwargs)
        kind = plain(args[0])
        if issubclass(kind, FakeTensor):
            return class_in_host_code(args[0])
        names = sys._getframe(1).f_globals  # pyright: ignore[reportPrivateUsage]
        return _HostType if kind is plain else type_in_host_code(kind, names)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, builtins.type) if cls is _HostType else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: Any) -> bool:
        return issubclass(subclass, builtins.type) if cls is _HostType else super().__subclasscheck__(subclass)


class _HostType(type, metaclass=_Behaviour):
    """What stands for `type` in the modules of host code."""


class _OfRealType(torch.Tensor):
    """Base of fake tensors whose `__class__` is that of a real one, to host code."""

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        asks = sys._getframe(1).f_code.co_filename  # pyright: ignore[reportPrivateUsage]
        return plain(self) if is_library(asks) else class_in_host_code(self)

    @__class__.setter
    def __class__(self, kind: Any) -> None:
        set_class(self, kind)


NUMBERS: dict[Any, Any] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
CHECKS = ("<frozen abc>", abc.__file__, functools.__file__)
"""Files of Python that look at the type of a number for host code."""


def _attribute(number: Any, name: str) -> Any:
    """Return an attribute of a symbolic number; its `__class__` decides `isinstance`.

    What a number of Python has, and a symbol has not, is that of its value, which is a guard.
    """
    symbolic = plain(number)
    if name != "__class__":
        if not hasattr(symbolic, name) and hasattr(NUMBERS[symbolic], name) and not is_library(_asking()):
            return getattr(NUMBERS[symbolic](number), name)
        return object.__getattribute__(number, name)
    return symbolic if is_library(_asking()) else NUMBERS[symbolic]


def _asking() -> str:
    """Return the file of the code that reads an attribute."""
    caller: Any = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while caller.f_back is not None and caller.f_code.co_filename in CHECKS:
        caller = caller.f_back
    return caller.f_code.co_filename


@contextmanager
def real_types() -> Generator[None]:
    """Give host code inside the block the types of real tensors and numbers."""
    fake: Any = FakeTensor
    bases = fake.__bases__
    with Patches() as patches:
        for module in host_modules():
            if "type" not in vars(module):
                patches.add(module, "type", _HostType)
        for kind in NUMBERS:
            patches.set(kind, "__getattribute__", _attribute)
        try:
            fake.__bases__ = (_OfRealType,)
            yield
        finally:
            fake.__bases__ = bases
