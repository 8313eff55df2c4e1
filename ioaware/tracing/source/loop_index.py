"""Represent loop indices of interpreted kernels.

They are Python integers with the methods of a tensor.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import triton.language as _tl
from triton.runtime import interpreter as _interpreter

from ioaware.errors import UsageError

interpreter: Any = _interpreter
tl: Any = _tl


class LoopIndex(int):
    """Integer with `.to(dtype)`, of `bits` bits.

    Arithmetic with integers returns a `LoopIndex`: it wraps around, and divides toward zero. A comparison, and arithmetic with
    floats, returns a tensor.

    The compiler has a scalar int32 tensor here. Why an integer: it is faster in the interpreter.
    """

    __hash__ = int.__hash__
    bits: int

    def __new__(cls, value: int, bits: int = 32) -> LoopIndex:
        """Return the value as an integer of so many bits."""
        half = 1 << bits - 1
        index = int.__new__(cls, (value + half) % (2 * half) - half)
        index.bits = bits
        return index

    def tensor(self) -> Any:
        """Return the index as a scalar tensor."""
        kind, data = (tl.int32, np.int32) if self.bits == 32 else (tl.int64, np.int64)
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


def bits_of(value: Any) -> int:
    """Return the bits that the compiler gives to an index or a bound of a loop."""
    if isinstance(value, (LoopIndex, int)):
        return getattr(value, "bits", 32 if -(2**31) <= value < 2**31 else 64)
    return max(32, value.dtype.primitive_bitwidth)


def _quotient(a: int, b: int) -> int:
    """Divide toward zero, as a GPU does."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


TOWARD_ZERO: Mapping[str, Callable[[int, int], int]] = {
    "__floordiv__": _quotient,
    "__mod__": lambda a, b: a - b * _quotient(a, b),
}


def _arithmetic(name: str) -> Callable[..., Any]:
    plain: Callable[..., Any] = getattr(int, name)
    forward = name.replace("__r", "__", 1)
    toward_zero = TOWARD_ZERO.get(forward)

    def computed(index: LoopIndex, *others: Any) -> Any:
        if any(isinstance(other, float) for other in others):
            return getattr(index.tensor(), name)(*others)
        outcome = plain(index, *others)
        if type(outcome) is not int:
            return outcome
        if toward_zero is not None:
            operands = (index, *others) if forward == name else (*others, index)
            outcome = toward_zero(*map(int, operands))
        return LoopIndex(outcome, max(map(bits_of, (index, *others))))

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
LoopIndex.__truediv__ = lambda index, other: index.tensor() / other
LoopIndex.__rtruediv__ = lambda index, other: other / index.tensor()
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
    bits: int = 32

    def __iter__(self) -> Iterator[LoopIndex]:
        for index in self.indices:
            self._block()
            yield LoopIndex(index, self.bits)
        self._block()

    def _block(self) -> None:
        if self.constant_trips != 1:
            LoopRange.blocks += 1


def loop_range(start: Any, stop: Any = None, step: Any = None, **_: Any) -> LoopRange:
    """Return `range` over loop indices, for `range` and `tl.range`.

    The bounds may be scalar tensors. A compiled loop runs while its index is below the end, unless its step is a constant.
    """
    first, last = (0, start) if stop is None else (start, stop)
    bounds = [_plain(first), _plain(last), 1 if step is None else _plain(step)]
    low, high, by = map(operator.index, bounds)
    if by <= 0 and type(bounds[2]) is not int:
        if low < high:
            raise UsageError(f"a loop from {low} to {high} has step {by} and does not end", "Give it a positive step.")
        high = low
    indices = range(low, high, by or 1)
    is_constant = all(type(bound) is int for bound in bounds)
    return LoopRange(indices, len(indices) if is_constant else None, max(map(bits_of, bounds)))


def _plain(bound: Any) -> Any:
    return bound.value if isinstance(bound, tl.constexpr) else bound
