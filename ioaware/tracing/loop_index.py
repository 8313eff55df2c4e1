"""Loop indices of interpreted kernels: Python integers with the methods of a tensor."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as _interpreter

interpreter: Any = _interpreter


class LoopIndex(int):
    """An integer with `.to(dtype)`; arithmetic with other integers returns another one.

    The compiler has a scalar int32 tensor here. Why an integer: it is faster in the interpreter.
    """

    def to(self, dtype: Any, **options: Any) -> Any:
        """Convert to a scalar tensor of `dtype`."""
        handle = interpreter.TensorHandle(np.array([int(self)], np.int32), tl.int32)
        return tl.tensor(handle, tl.int32).to(dtype, **options)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _closed(name: str) -> Callable[..., Any]:
    plain: Callable[..., Any] = getattr(int, name)

    def computed(*operands: Any) -> Any:
        outcome = plain(*operands)
        return LoopIndex(outcome) if type(outcome) is int else outcome

    return computed


for _name in ("add", "sub", "mul", "floordiv", "mod", "lshift", "rshift", "and", "or", "xor"):
    for _side in ("__", "__r"):
        setattr(LoopIndex, f"{_side}{_name}__", _closed(f"{_side}{_name}__"))
LoopIndex.__neg__ = _closed("__neg__")


def loop_range(*bounds: Any) -> Iterator[LoopIndex]:
    """Return `range` over loop indices; the bounds may be scalar tensors."""
    return map(LoopIndex, range(*map(operator.index, bounds)))
