"""Fix Triton's interpreter while kernels run, so that values equal the hardware's.

- Triton 3.6 turns a loop bound held in a tensor into an integer in a way that numpy 2.4 and later refuse.
- bfloat16 is held as its 16 bits, and arithmetic is done on those bits as if they were integers.
- A conversion from float32 to bfloat16 drops bits where hardware rounds to nearest even.
- Reductions through a tensor descriptor are missing, and so are bfloat16 constants.
- A comparison of scalars has its operands' type; broadcast to a block it becomes integers instead of a mask.
- Matrix products with scales are missing.
- Programmatic dependent launch (`gdc_wait`) is missing; with kernels in sequence it does nothing.
- A float argument stays a Python float, which takes a tensor's type; compiled, it is a float32.
- A tensor's `T` bypasses the builder, where operations are observed.
- Methods of a tensor from Triton's mathematics (`x.exp()`) lack the interpreter's semantics.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter as _interpreter

from ioaware._monkeypatch import Patches
from ioaware.tracing import scaled_dot

interpreter: Any = _interpreter
core: Any = tl.core
Bits = NDArray[np.uint16]
Handle = Any  # triton's TensorHandle: numpy data and a Triton dtype
BFLOAT16: str = core.bfloat16.name


def install_fixes(patches: Patches) -> None:
    """Install every fix.

    Call this after the interpreter has patched Triton's language.
    """
    builder = interpreter.interpreter_builder
    patches.set(tl.tensor, "__index__", _index)
    patches.set(tl.tensor, "T", property(_transposed))
    _fix_methods(patches)
    _fix_casts(builder, patches)
    _fix_arithmetic(builder, patches)
    _fix_float_arguments(patches)
    _fix_splats(builder, patches)
    _fix_launch_control(builder, patches)
    scaled_dot.install(patches)
    if not hasattr(builder, "get_bf16"):
        patches.set(builder, "get_bf16", lambda value: interpreter.TensorHandle(narrow(np.array([value])), tl.bfloat16))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    if not hasattr(builder, "create_descriptor_reduce"):
        patches.set(builder, "create_descriptor_reduce", _descriptor_reduce(builder))


def _fix_methods(patches: Patches) -> None:
    """Give `x.exp()` and its kind the interpreter's semantics, as `tl.exp(x)` has."""

    def method(plain: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: plain(*args, **{**kwargs, "_semantic": interpreter.interpreter_semantic})

    for name in _plain_methods():
        patches.set(tl.tensor, name, method(vars(tl.tensor)[name]))


@lru_cache(maxsize=1)
def _plain_methods() -> tuple[str, ...]:
    """Return the methods of a tensor that take semantics and are no builtins.

    They are found once: Python builds each signature anew.
    """
    members = [(name, member) for name, member in vars(tl.tensor).items() if inspect.isfunction(member)]
    plain = [(name, member) for name, member in members if not core.is_builtin(member)]
    return tuple(name for name, member in plain if "_semantic" in inspect.signature(member).parameters)


def _index(tensor: Any) -> int:
    return int(tensor.handle.data.squeeze())


def _transposed(tensor: Any) -> Any:
    handle = tensor.handle
    axes = list(reversed(range(handle.data.ndim)))
    transposed = interpreter.interpreter_builder.create_trans(handle, axes)
    return tl.tensor(transposed, tl.block_type(tensor.dtype.scalar, list(transposed.data.shape)))


def widen(bits: Bits) -> NDArray[np.float32]:
    """Return bfloat16 bits as float32, exactly."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow(values: NDArray[np.floating[Any]]) -> Bits:
    """Round float32 to the nearest bfloat16 bits, ties to even; NaN stays NaN."""
    single = np.ascontiguousarray(values, dtype=np.float32)
    bits = single.view(np.uint32)
    rounded = (bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))) >> np.uint32(16)
    return np.where(np.isnan(single), np.uint32(0x7FC0), rounded).astype(np.uint16).reshape(np.shape(values))


def _is_bfloat16(handle: Handle) -> bool:
    return handle.dtype.scalar.name == BFLOAT16


def _widened(handle: Handle) -> Handle:
    """Return a bfloat16 operand as float32, any other unchanged."""
    return _with_data(handle, widen(handle.data), tl.float32) if _is_bfloat16(handle) else handle


def _in_float32(handle: Handle) -> Handle:
    """Return an operand of 16-bit floats as float32, any other unchanged."""
    is_half = handle.data.dtype == np.float16
    return _with_data(handle, handle.data.astype(np.float32), tl.float32) if is_half else _widened(handle)


def _with_data(handle: Handle, data: NDArray[Any], kind: Any) -> Handle:
    """Return a copy of a value with other data.

    It keeps its other attributes, such as the valid extents that a walk attaches.
    """
    copied = copy.copy(handle)
    copied.data, copied.dtype = data, kind
    return copied


def _fix_casts(builder: Any, patches: Patches) -> None:
    def cast(source: Handle, target: Any) -> Handle:
        before, after = _is_bfloat16(source), target.scalar.name == BFLOAT16
        if after and not before:
            return interpreter.TensorHandle(narrow(source.data), tl.bfloat16)
        return plain(_widened(source) if before and not after else source, target)

    plain: Callable[..., Handle] = patches.set(builder, "cast_impl", cast)


def _fix_arithmetic(builder: Any, patches: Patches) -> None:
    """Compute operations and dots on bfloat16 in float32, rounding once.

    Hardware does the same; the operations are elementwise. Dots of float16 that add up in float32 are in float32, too: the
    products are the same, and NumPy multiplies matrices of float16 fifty times more slowly.
    """

    def elementwise(name: str, operands: int) -> None:
        def fixed(*arguments: Any) -> Handle:
            handles, rest = arguments[:operands], arguments[operands:]
            if not any(map(_is_bfloat16, handles)) or np.where in rest:
                return plain(*arguments)
            result = plain(*map(_widened, handles), *rest)
            if result.data.dtype == np.bool_:
                return _with_data(result, result.data, handles[0].dtype.scalar)
            return _with_data(result, narrow(result.data), tl.bfloat16)

        plain: Callable[..., Handle] = patches.set(builder, name, fixed)

    for name, operands in (("unary_op", 1), ("binary_op", 2), ("ternary_op", 3), ("create_fma", 3), ("create_rsqrt", 1)):
        elementwise(name, operands)

    def dot(lhs: Handle, rhs: Handle, total: Handle, *rest: Any) -> Handle:
        wide = _in_float32 if total.data.dtype == np.float32 else _widened
        return plain_dot(wide(lhs), wide(rhs), total, *rest)

    plain_dot: Callable[..., Handle] = patches.set(builder, "create_dot", dot)


def _fix_splats(builder: Any, patches: Patches) -> None:
    def splat(kind: Any, value: Handle) -> Handle:
        of_value = tl.int1 if value.data.dtype == np.bool_ else value.dtype.scalar
        data = np.empty(kind.shape, interpreter._get_np_dtype(of_value))
        data[...] = value.data
        return interpreter.TensorHandle(data, of_value)

    patches.set(builder, "create_splat", splat)


def _fix_launch_control(builder: Any, patches: Patches) -> None:
    """Ignore `gdc_wait` and `gdc_launch_dependents`.

    They are inline assembly until Triton 3.8, builder operations from 3.9.
    """

    def assembly(text: str, *rest: Any) -> Any:
        if not text.startswith("griddepcontrol."):
            return plain(text, *rest)
        nothing = interpreter.TensorHandle(np.array([0], np.int32), tl.int32)
        return SimpleNamespace(get_result=[nothing].__getitem__)

    plain: Callable[..., Any] = patches.set(builder, "create_inline_asm", assembly)
    for name in ("create_grid_dependency_wait", "create_grid_dependency_launch_dependents"):
        if not hasattr(builder, name):
            patches.set(builder, name, lambda: None)


def _fix_float_arguments(patches: Patches) -> None:
    def converted(argument: Any) -> Any:
        if isinstance(argument, float):
            return tl.tensor(interpreter.TensorHandle(np.array([argument], np.float32), tl.float32), tl.float32)
        return plain(argument)

    plain: Callable[[Any], Any] = patches.set(interpreter, "_implicit_cvt", converted)


def _descriptor_reduce(builder: Any) -> Callable[..., None]:
    """Return `descriptor.atomic_add` and similar as atomics.

    They touch the elements inside the tensor.
    """
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
