"""What Triton's interpreter gets wrong, put right while a trace runs: values must be those of the hardware.

- Triton 3.6 turns a loop bound held in a tensor into an integer in a way that numpy 2.4 and later refuse.
- bfloat16 is held as its 16 bits, and arithmetic is done on those bits as if they were integers.
- A conversion from float32 to bfloat16 drops bits where hardware rounds to nearest even.
- Reductions through a tensor descriptor are missing, and so are bfloat16 constants.
- A comparison of scalars calls itself what its operands are, and spread over a block, as part of a mask, becomes integers.
- Matrix products with scales are missing.
- What lets a kernel begin before the one in front of it has ended is missing; one after the other, it does nothing.
- A float argument stays a Python float, whose type gives way to a tensor's; compiled, it is a float32 like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter as _interpreter

from ioaware._monkeypatch import Patches
from ioaware.tracing import scaled_dot

interpreter: Any = _interpreter
Bits = NDArray[np.uint16]
Handle = Any  # triton's TensorHandle: numpy data and a Triton dtype


def repair(patches: Patches) -> None:
    """Installs every repair. Call it after the interpreter has patched Triton's language."""
    builder = interpreter.interpreter_builder
    patches.set(tl.tensor, "__index__", _index)
    _repair_casts(builder, patches)
    _repair_arithmetic(builder, patches)
    _repair_float_arguments(patches)
    _repair_splats(builder, patches)
    _repair_launch_control(builder, patches)
    scaled_dot.install(patches)
    if not hasattr(builder, "get_bf16"):
        patches.set(builder, "get_bf16", lambda value: interpreter.TensorHandle(narrow(np.array([value])), tl.bfloat16))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    if not hasattr(builder, "create_descriptor_reduce"):
        patches.set(builder, "create_descriptor_reduce", _descriptor_reduce(builder))


def _index(tensor: Any) -> int:
    return int(tensor.handle.data.squeeze())


def widen(bits: Bits) -> NDArray[np.float32]:
    """bfloat16 bits as the float32 of the same value, exactly."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow(values: NDArray[np.floating[Any]]) -> Bits:
    """float32 rounded to the nearest bfloat16, ties to even, as bits; a NaN stays one."""
    single = np.ascontiguousarray(values, dtype=np.float32)
    bits = single.view(np.uint32)
    rounded = (bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))) >> np.uint32(16)
    return np.where(np.isnan(single), np.uint32(0x7FC0), rounded).astype(np.uint16).reshape(np.shape(values))


def _is_bfloat16(handle: Handle) -> bool:
    return handle.dtype.scalar == tl.bfloat16


def _widened(handle: Handle) -> Handle:
    """The operand in float32 when it is bfloat16, itself otherwise."""
    return interpreter.TensorHandle(widen(handle.data), tl.float32) if _is_bfloat16(handle) else handle


def _repair_casts(builder: Any, patches: Patches) -> None:
    def cast(source: Handle, target: Any) -> Handle:
        if target.scalar == tl.bfloat16 and source.dtype.scalar != tl.bfloat16:
            return interpreter.TensorHandle(narrow(source.data), tl.bfloat16)
        if _is_bfloat16(source) and target.scalar != tl.bfloat16:
            return plain(_widened(source), target)
        return plain(source, target)

    plain: Callable[..., Handle] = patches.set(builder, "cast_impl", cast)


def _repair_arithmetic(builder: Any, patches: Patches) -> None:
    """Elementwise operations and dots on bfloat16 operands are done in float32 and rounded once, as hardware does."""

    def elementwise(name: str, operands: int) -> None:
        def repaired(*arguments: Any) -> Handle:
            handles, rest = arguments[:operands], arguments[operands:]
            if not any(_is_bfloat16(handle) for handle in handles) or np.where in rest:
                return plain(*arguments)
            result = plain(*map(_widened, handles), *rest)
            if result.data.dtype == np.bool_:
                return interpreter.TensorHandle(result.data, handles[0].dtype.scalar)
            return interpreter.TensorHandle(narrow(result.data), tl.bfloat16)

        plain: Callable[..., Handle] = patches.set(builder, name, repaired)

    for name, operands in (("unary_op", 1), ("binary_op", 2), ("ternary_op", 3), ("create_fma", 3), ("create_rsqrt", 1)):
        elementwise(name, operands)

    def dot(lhs: Handle, rhs: Handle, *rest: Any) -> Handle:
        return plain_dot(_widened(lhs), _widened(rhs), *rest)

    plain_dot: Callable[..., Handle] = patches.set(builder, "create_dot", dot)


def _repair_splats(builder: Any, patches: Patches) -> None:
    def splat(kind: Any, value: Handle) -> Handle:
        is_truth = value.data.dtype == np.bool_
        return plain(kind, interpreter.TensorHandle(value.data, tl.int1) if is_truth else value)

    plain: Callable[..., Handle] = patches.set(builder, "create_splat", splat)


def _repair_launch_control(builder: Any, patches: Patches) -> None:
    """`gdc_wait` and `gdc_launch_dependents`: assembly until Triton 3.8, operations of their own from 3.9 on."""

    def assembly(text: str, *rest: Any) -> Any:
        if not text.startswith("griddepcontrol."):
            return plain(text, *rest)
        nothing = interpreter.TensorHandle(np.array([0], np.int32), tl.int32)
        return SimpleNamespace(get_result=[nothing].__getitem__)

    plain: Callable[..., Any] = patches.set(builder, "create_inline_asm", assembly)
    for name in ("create_grid_dependency_wait", "create_grid_dependency_launch_dependents"):
        if not hasattr(builder, name):
            patches.set(builder, name, lambda: None)


def _repair_float_arguments(patches: Patches) -> None:
    def converted(argument: Any) -> Any:
        if isinstance(argument, float):
            return tl.tensor(interpreter.TensorHandle(np.array([argument], np.float32), tl.float32), tl.float32)
        return plain(argument)

    plain: Callable[[Any], Any] = patches.set(interpreter, "_implicit_cvt", converted)


def _descriptor_reduce(builder: Any) -> Callable[..., None]:
    """`descriptor.atomic_add` and its kin as atomics on the elements inside the tensor."""
    ir = interpreter._ir

    def reduce(kind: Any, descriptor: Any, value: Handle, offsets: Any) -> None:
        pointers, mask = descriptor.materialize_pointers(offsets)
        handle = interpreter.TensorHandle(mask, tl.int1) if isinstance(mask, np.ndarray) else mask
        operation = kind.name
        if operation == "ADD" and pointers.get_element_ty().is_floating():
            operation = "FADD"
        elif operation in ("MIN", "MAX") and pointers.get_element_ty().is_int_unsigned():
            operation = "U" + operation
        rmw = getattr(ir.ATOMIC_OP, operation)
        builder.create_atomic_rmw(rmw, pointers, value, handle, ir.MEM_SEMANTIC.RELAXED, None)

    return reduce
