"""Evaluate `and`, `or`, `not` of kernels as Triton's compiler does.

The compiler combines tensors element by element and evaluates every operand, loads included: a false scalar tensor does not
short-circuit. Only a value known at compile time does. Source: `CodeGenerator.visit_BoolOp`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import triton.language as _tl

from ioaware.tracing.source.loop_index import LoopIndex

tl: Any = _tl
Operand = Callable[[], Any]


def logical_and(*operands: Operand) -> Any:
    """Return `a and b and ...`.

    Each operand is a function, so that a constant can short-circuit.
    """
    return _combine(operands, "logical_and", ends=False)


def logical_or(*operands: Operand) -> Any:
    """Return `a or b or ...`."""
    return _combine(operands, "logical_or", ends=True)


def logical_not(value: Any) -> Any:
    """Return `not value`, element by element for a tensor."""
    value = _tensor_of(value)
    return _int1(value).__not__() if isinstance(value, tl.tensor) else not value


def _combine(operands: tuple[Operand, ...], method: str, *, ends: bool) -> Any:
    tensors: list[Any] = []
    value: Any = None
    for operand in operands:
        value = _tensor_of(operand())
        if isinstance(value, tl.tensor):
            tensors.append(_int1(value))
        elif bool(value) is ends:
            return value
    return reduce(lambda left, right: getattr(left, method)(right), tensors) if tensors else value


def _tensor_of(value: Any) -> Any:
    """Return the tensor that the compiler has for a loop index.

    Constants become Python values.
    """
    if isinstance(value, LoopIndex):
        return value.tensor()
    return value.value if isinstance(value, tl.constexpr) else value


def _int1(tensor: Any) -> Any:
    return tensor if tensor.type.is_int1() else tensor != 0
