"""Implement `tl.dot_scaled` for Triton's interpreter.

It lacks the function before 3.9; block scales are along K.

Formats as in the OCP Microscaling Formats (MX) Specification v1.0: e4m3, e5m2 and e2m1 elements, e8m0 scales; NVFP4 has e4m3
scales. Two e2m1 elements share a byte, the first in its low half.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter as _interpreter

from ioaware._monkeypatch import Patches

interpreter: Any = _interpreter
Floats = NDArray[np.float32]
Handle = Any  # triton's TensorHandle: numpy data and a Triton dtype
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
E8M0_BIAS = 127


def install(patches: Patches) -> None:
    """Add the operation where it is missing (before Triton 3.9).

    Formats arrive as strings.
    """
    semantics: Any = interpreter.interpreter_semantic.__class__
    builder = interpreter.interpreter_builder
    if hasattr(builder, "create_dot_scaled"):
        return
    plain: Callable[..., Any] = semantics.dot_scaled

    def dot_scaled(*args: Any) -> Any:
        return plain(*(tl.constexpr(arg) if isinstance(arg, str) else arg for arg in args))

    patches.set(semantics, "dot_scaled", dot_scaled)
    patches.set(builder, "create_dot_scaled", _create)


def _create(
    lhs: Handle,
    lhs_scale: Handle | None,
    lhs_format: Any,
    rhs: Handle,
    rhs_scale: Handle | None,
    rhs_format: Any,
    fast_math: bool,
    lhs_k_pack: bool,
    rhs_k_pack: bool,
    accumulator: Handle,
) -> Handle:
    """Multiply scaled matrices, with the accumulator in float32.

    lhs [..., M, K], rhs [..., K, N], scales [..., M, K/block] and [..., N, K/block], accumulator [..., M, N].
    """
    del fast_math
    a = _scaled(_elements(lhs, lhs_format, -1 if lhs_k_pack else -2), lhs_scale)
    b = _scaled(np.swapaxes(_elements(rhs, rhs_format, -2 if rhs_k_pack else -1), -1, -2), rhs_scale)
    operands = (interpreter.TensorHandle(values, tl.float32) for values in (a, np.swapaxes(b, -1, -2)))
    return interpreter.interpreter_builder.create_dot(*operands, accumulator, None, 0)  # counted there


def _elements(operand: Handle, kind: Any, packed_along: int) -> Floats:
    """Return the operand's elements as float32.

    E2m1 is unpacked along its packed axis.
    """
    if kind.name == "E2M1":
        halves = np.stack([operand.data & 0xF, operand.data >> 4], axis=-1)
        values = np.where(halves & 8, -1, 1).astype(np.float32) * E2M1[halves & 7]
        axis = packed_along + operand.data.ndim
        moved = np.moveaxis(values, -1, axis + 1)
        shape = [size * (2 if at == axis else 1) for at, size in enumerate(operand.data.shape)]
        return moved.reshape(shape)
    return _float32(operand)


def _float32(operand: Handle) -> Floats:
    kind = operand.dtype.scalar
    if kind.is_floating() and kind.primitive_bitwidth == 8:  # the interpreter's cast treats it as an integer
        return interpreter._convert_float(operand.data, kind, tl.float32, None).view(np.float32)
    return interpreter.interpreter_builder.cast_impl(operand, tl.float32).data.astype(np.float32)


def _scaled(rows: Floats, scale: Handle | None) -> Floats:
    """Return rows [..., R, K] times their scales [..., R, K/block]."""
    if scale is None:
        return rows
    floating = scale.dtype.scalar.is_floating()
    factors = _float32(scale) if floating else np.exp2(scale.data.astype(np.float32) - E8M0_BIAS)
    return rows * np.repeat(factors, rows.shape[-1] // factors.shape[-1], axis=-1)
