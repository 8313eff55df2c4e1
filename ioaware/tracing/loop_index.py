"""The index of a kernel's loop in Triton's interpreter: Python's integer, which also does what a compiled index does."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as _interpreter

interpreter: Any = _interpreter


class LoopIndex(int):
    """An integer that can be converted with `.to(dtype)`, and so can what is computed of it and other integers.

    The compiler has a tensor of one int32 here; a plain integer does in every other place, and is faster.
    """

    def to(self, dtype: Any, **options: Any) -> Any:
        """As a tensor's."""
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
    """`range` for a kernel; its bounds may be tensors of one element."""
    return map(LoopIndex, range(*map(operator.index, bounds)))
