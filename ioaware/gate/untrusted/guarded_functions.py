"""Find public functions that untrusted code replaces, and put them back.

Timers, synchronisation, comparisons, statistics, random numbers and the launch and warm-up of kernels are what an evaluator
judges with. A replaced function of torch, Triton, NumPy or Python is reported whatever it does.
"""

from __future__ import annotations

import builtins
import math
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.testing
import triton
import triton.testing
from torch.nn import functional
from triton.runtime import jit as _jit

_torch: Any = torch
jit: Any = _jit
OWNERS: tuple[tuple[str, Any], ...] = (
    ("builtins", builtins),
    ("math", math),
    ("statistics", statistics),
    ("time", time),
    ("numpy", np),
    ("numpy.testing", np.testing),
    ("torch", torch),
    ("torch.Tensor", torch.Tensor),
    ("torch.cuda", torch.cuda),
    ("torch.nn.functional", functional),
    ("torch.testing", torch.testing),
    ("triton", triton),
    ("triton.testing", triton.testing),
    ("triton.JITFunction", jit.JITFunction),
    ("triton.KernelInterface", jit.KernelInterface),
)
CLASSES = ("Event", "Stream", "CUDAGraph")
"""Classes of torch.cuda whose methods are guarded too."""
TORCH = f"{Path(str(torch.__file__)).parent}/"
_ABSENT: Any = object()


class GuardedFunctions:
    """The public functions of `OWNERS` as they are now.

    They are restored at the end of the block.
    """

    def __init__(self) -> None:
        classes = ((f"torch.cuda.{name}", getattr(_torch.cuda, name)) for name in CLASSES)
        self._owners: tuple[tuple[str, Any], ...] = (*OWNERS, *classes)
        self._before = {name: dict(_public(owner)) for name, owner in self._owners}

    def changed(self) -> dict[str, str]:
        """Return the replaced functions by full name, each with its replacement's place."""
        return {
            f"{name}.{attribute}": _place(_member(owner, attribute))
            for name, owner, attribute, before in self._differences()
            if not _wrapped_by_torch(_member(owner, attribute), before)
        }

    def _differences(self) -> Iterator[tuple[str, Any, str, Any]]:
        """Yield each difference: name of the owner, owner, attribute, value before.

        The value is `_ABSENT` where only a base class had the attribute.
        """
        for name, owner in self._owners:
            before = self._before[name]
            yield from ((name, owner, one, value) for one, value in before.items() if _member(owner, one) is not value)
            added = [one for one, _ in _public(owner) if one not in before and _inherited(owner, one)]
            yield from ((name, owner, one, _ABSENT) for one in added)

    def __enter__(self) -> GuardedFunctions:
        return self

    def __exit__(self, *_: object) -> None:
        for _name, owner, attribute, value in list(self._differences()):
            if value is _ABSENT:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, value)


def _wrapped_by_torch(value: Any, before: Any) -> bool:
    """Return whether torch has wrapped a function, as its compiler does."""
    file = str(getattr(getattr(value, "__code__", None), "co_filename", ""))
    return file.startswith(TORCH) and before in (
        getattr(value, name, None) for name in ("__wrapped__", "_torchdynamo_orig_callable")
    )


def _member(owner: Any, name: str) -> Any:
    members: dict[str, Any] = owner.__dict__
    return members.get(name, _ABSENT)


def _inherited(owner: Any, name: str) -> bool:
    """Return whether a base of a class has an attribute."""
    return any(name in vars(base) for base in getattr(owner, "__mro__", ())[1:])


def _public(owner: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield functions and classes of a module, or methods and operators of a class."""
    members: dict[str, Any] = dict(owner.__dict__)
    for name, value in members.items():
        is_operator = not isinstance(owner, ModuleType) and name.startswith("__") and name not in ("__dict__", "__weakref__")
        if (is_operator or not name.startswith("_")) and not isinstance(value, ModuleType) and _is_code(value):
            yield name, value


def _is_code(value: Any) -> bool:
    return callable(value) or isinstance(value, (staticmethod, classmethod, property))


def _place(value: Any) -> str:
    """Return the file and line of a replacement, or its type where it has none."""
    code = getattr(getattr(value, "__func__", value), "__code__", None)
    if code is None:
        return "removed" if value is _ABSENT else type(value).__name__
    return f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}"
