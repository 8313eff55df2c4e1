"""Represent loop indices of interpreted kernels.

They are Python integers with the methods of a tensor.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import triton.language as _tl
from triton.runtime import interpreter as _interpreter

interpreter: Any = _interpreter
tl: Any = _tl


class LoopIndex(int):
    """Integer with `.to(dtype)`.

    Arithmetic with integers returns a `LoopIndex`, a comparison a tensor.

    The compiler has a scalar int32 tensor here. Why an integer: it is faster in the interpreter.
    """

    __hash__ = int.__hash__

    def tensor(self) -> Any:
        """Return the index as a scalar int32 tensor (int64 if it needs 64 bits)."""
        kind, data = (tl.int32, np.int32) if -(2**31) <= self < 2**31 else (tl.int64, np.int64)  # pyright: ignore[reportUnnecessaryComparison]
        return tl.tensor(interpreter.TensorHandle(np.array([int(self)], data), kind), kind)

    def to(self, dtype: Any, **options: Any) -> Any:
        """Convert to a scalar tensor of `dtype`."""
        return self.tensor().to(dtype, **options)

    def cast(self, dtype: Any, **options: Any) -> Any:
        """Convert to a scalar tensor of `dtype`."""
        return self.tensor().cast(dtype, **options)

    @property
    def dtype(self) -> Any:
        """The type of the tensor."""
        return self.tensor().dtype


def _arithmetic(name: str) -> Callable[..., Any]:
    plain: Callable[..., Any] = getattr(int, name)

    def computed(*operands: Any) -> Any:
        outcome = plain(*operands)
        return LoopIndex(outcome) if type(outcome) is int else outcome

    return computed


def _comparison(name: str) -> Callable[..., Any]:
    plain: Callable[..., Any] = getattr(int, name)

    def compared(*operands: Any) -> Any:
        outcome = plain(*operands)
        return _truth(outcome) if isinstance(outcome, bool) else outcome

    return compared


def _truth(value: bool) -> Any:
    return tl.tensor(interpreter.TensorHandle(np.array([value]), tl.int1), tl.int1)


for _name in ("add", "sub", "mul", "floordiv", "mod", "lshift", "rshift", "and", "or", "xor"):
    for _side in ("__", "__r"):
        setattr(LoopIndex, f"{_side}{_name}__", _arithmetic(f"{_side}{_name}__"))
LoopIndex.__neg__ = _arithmetic("__neg__")
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(LoopIndex, f"__{_name}__", _comparison(f"__{_name}__"))


@dataclass(frozen=True)
class LoopRange:
    """Range over loop indices.

    `constant_trips` is the number of iterations where the compiler knows it from the bounds, and None elsewhere.
    """

    blocks: ClassVar[int] = 0
    """Number of blocks of code so far.

    An iteration begins one, if the loop stays in the compiled kernel.
    """

    indices: range
    constant_trips: int | None

    def __iter__(self) -> Iterator[LoopIndex]:
        for index in self.indices:
            self._block()
            yield LoopIndex(index)
        self._block()

    def _block(self) -> None:
        if self.constant_trips != 1:
            LoopRange.blocks += 1


def loop_range(start: Any, stop: Any = None, step: Any = None, **_: Any) -> LoopRange:
    """Return `range` over loop indices, for `range` and `tl.range`.

    The bounds may be scalar tensors.
    """
    first, last = (0, start) if stop is None else (start, stop)
    bounds = [_plain(first), _plain(last), 1 if step is None else _plain(step)]
    indices = range(*map(operator.index, bounds))
    return LoopRange(indices, len(indices) if all(type(bound) is int for bound in bounds) else None)


def _plain(bound: Any) -> Any:
    return bound.value if isinstance(bound, tl.constexpr) else bound
