"""Cache what Triton's interpreter computes of shapes and types.

Every operation creates a tensor, and often a block type. A kernel has few shapes, and the language holds each as a tuple of
constants, which it never changes. Most operands have one shape and one type, and need no conversion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as _tl
from triton.runtime import interpreter as _interpreter

from ioaware._monkeypatch import Patches

tl: Any = _tl
interpreter: Any = _interpreter

INTEGERS = frozenset({int})
"""Not bool, whose instances equal integers."""
NUMBERS = (bool, int, float)
OF_BLOCK_TYPE = {"element_ty", "shape", "numel", "name"}
"""Attributes of an instance; one that has others is not shared."""
OF_TENSOR = {"handle", "shape", "numel", "type", "dtype"}
"""Attributes of a tensor."""


def install(patches: Patches) -> None:
    """Let block types and tensors of one shape share its tuple.

    Operands that share it are not broadcast, and those of one type not cast.
    """
    shapes = _Sizes()
    _cache_numpy_types(patches)
    _cache_block_types(patches, shapes)
    _cache_tensors(patches, shapes)
    _keep_types(patches)
    _skip_conversions(interpreter.interpreter_semantic, patches)


class _Sizes:
    """Shapes as plain integers, also by the identity of the tuples that values share."""

    def __init__(self) -> None:
        self._shared: dict[int, tuple[int, ...]] = {id(()): ()}
        self._alive: list[Any] = []

    def share(self, shape: Any, sizes: tuple[int, ...]) -> Any:
        """Remember a tuple that values will share, and return it."""
        self._shared[id(shape)] = sizes
        self._alive.append(shape)
        return shape

    def shared(self, shape: Any) -> tuple[int, ...] | None:
        """Return the sizes of a tuple that values share, and None for any other."""
        return self._shared.get(id(shape))

    def of(self, shape: Any) -> tuple[int, ...] | None:
        """Return a shape as plain integers.

        None where it has others, which Triton judges.
        """
        if (shared := self.shared(shape)) is not None:
            return shared
        if not isinstance(shape, (list, tl.tuple)):
            return None
        sizes = tuple([size.value if isinstance(size, tl.constexpr) else size for size in shape])
        return sizes if INTEGERS.issuperset(map(type, sizes)) else None


def _cache_numpy_types(patches: Patches) -> None:
    """Cache the numpy type of a Triton type, and the bytes that its elements may have.

    The interpreter finds both anew at each operation.
    """
    cache: dict[str, Any] = {}
    most_bytes: dict[str, int] = {}

    def numpy_type(kind: Any) -> Any:
        name: str = kind.scalar.name
        if name not in cache:
            cache[name] = plain(kind)
        return cache[name]

    def fits(data: Any, kind: Any) -> bool:
        name: str = kind.name
        if name not in most_bytes:
            most_bytes[name] = max((size for size in (1, 2, 4, 8) if plain_fits(np.empty(0, f"V{size}"), kind)), default=0)
        return data.itemsize <= most_bytes[name]

    plain: Callable[[Any], Any] = patches.set(interpreter, "_get_np_dtype", numpy_type)
    plain_fits: Callable[[Any, Any], bool] = patches.set(interpreter, "_validate_np_data_size", fits)


def _cache_block_types(patches: Patches, shapes: _Sizes) -> None:
    known: dict[tuple[int, ...], tuple[Any, int, str]] = {}
    of_elements: dict[tuple[int, int], tuple[Any, Any, Any]] = {}

    def initialise(block: Any, element_ty: Any, shape: Any) -> None:
        sizes = shapes.of(shape)
        if sizes in known:
            block.element_ty = element_ty
            block.shape, block.numel, text = known[sizes]
            block.name = f"<{text}, {element_ty}>"
            return
        plain(block, element_ty, shape)  # which refuses sizes that no block has
        if sizes is not None and block.__dict__.keys() == OF_BLOCK_TYPE and block.name == f"<{block.shape}, {element_ty}>":
            known[sizes] = shapes.share(block.shape, sizes), block.numel, str(block.shape)

    def with_element(block: Any, element_ty: Any) -> Any:
        key = id(block.shape), id(element_ty)
        if key not in of_elements:
            of_elements[key] = plain_element(block, element_ty), block.shape, element_ty  # alive, so that no other has its id
        return of_elements[key][0]

    plain: Callable[[Any, Any, Any], None] = patches.set(tl.block_type, "__init__", initialise)
    plain_element: Callable[[Any, Any], Any] = patches.set(tl.block_type, "with_element_ty", with_element)


def _cache_tensors(patches: Patches, shapes: _Sizes) -> None:
    known: dict[int, tuple[Any, Any]] = {}

    def initialise(tensor: Any, handle: Any, type: Any) -> None:
        shape = type.shape if type.is_block() else ()
        if (found := known.get(id(shape))) is not None:
            tensor.handle, tensor.type, tensor.dtype = handle, type, type.scalar
            tensor.shape, tensor.numel = found
            return
        plain(tensor, handle, type)
        if (sizes := shapes.shared(shape)) is not None and tensor.__dict__.keys() == OF_TENSOR:
            known[id(shape)] = shapes.share(tensor.shape, sizes), tensor.numel

    plain: Callable[[Any, Any, Any], None] = patches.set(tl.tensor, "__init__", initialise)


def _keep_types(patches: Patches) -> None:
    """Let a type be its own form for the interpreter, which makes an equal one of it."""
    forms: dict[str, Any] = {}

    def scalar_form(kind: Any, builder: Any) -> Any:
        name: str = kind.name
        if name not in forms:
            forms[name] = plain(kind, builder)
        return forms[name]

    def block_form(block: Any, builder: Any) -> Any:
        element = block.element_ty.to_ir(builder)  # which refuses a type that the interpreter lacks
        return block if element is block.element_ty else plain_block(block, builder)

    plain: Callable[[Any, Any], Any] = patches.set(tl.dtype, "to_ir", scalar_form)
    plain_block: Callable[[Any, Any], Any] = patches.set(tl.block_type, "to_ir", block_form)


def _skip_conversions(semantic: Any, patches: Patches) -> None:
    """Convert operands of types seen before without Triton's checks.

    The builder makes the same values of them.
    """
    builder = semantic.builder
    promoted: dict[tuple[Any, ...], Any] = {}
    common: dict[tuple[object, ...], Any] = {}
    wider: dict[tuple[int, int], tuple[Any, Any]] = {}

    def check(lhs: Any, rhs: Any, *how: bool, **options: bool) -> tuple[Any, Any]:
        """Convert two operands to the type that Triton found for such ones."""
        key = operand(lhs), operand(rhs), how
        kind = None if options else common.get(key)
        if kind is not None:
            return broadcast(converted(lhs, kind), converted(rhs, kind))
        both = plain_check(lhs, rhs, *how, **options)
        if None not in key and not options and both[0].dtype is both[1].dtype:
            common[key] = both[0].dtype
        return both

    def operand(value: Any) -> object:
        """Return the type of a tensor, or a number with its own.

        None for a pointer or another value.
        """
        if type(value) is tl.tensor:
            return None if value.dtype.is_ptr() else value.dtype.name
        return (type(value).__name__, value) if type(value) in NUMBERS else None

    def converted(value: Any, kind: Any) -> Any:
        return cast(value, kind) if type(value) is tl.tensor else semantic.scalar_constant(value, kind)

    def broadcast(lhs: Any, rhs: Any) -> tuple[Any, Any]:
        left, right = lhs.type, rhs.type
        if not right.is_block():
            return lhs, splat(rhs, left) if left.is_block() else rhs
        if not left.is_block():
            return splat(lhs, right), rhs
        if left.shape is right.shape:
            return lhs, rhs
        key = id(left.shape), id(right.shape)
        if key not in wider:
            both = plain_broadcast(lhs, rhs)
            if len(left.shape) == len(right.shape) and both[0].type.shape is both[1].type.shape:
                wider[key] = both[0].type, (left, right)
            return both
        shape = wider[key][0]
        return broadcast_to(lhs, shape), broadcast_to(rhs, shape)

    def splat(scalar: Any, block: Any) -> Any:
        kind = block.with_element_ty(scalar.dtype)
        return tl.tensor(builder.create_splat(kind.to_ir(builder), scalar.handle), kind)

    def broadcast_to(value: Any, block: Any) -> Any:
        if value.type.shape is block.shape:
            return value
        return tl.tensor(builder.create_broadcast(value.handle, [*block.shape]), block.with_element_ty(value.dtype))

    def cast(value: Any, kind: Any, *rounding: Any, **options: Any) -> Any:
        return value if value.dtype is kind.scalar else plain_cast(value, kind, *rounding, **options)

    def common_type(left: Any, left_is_scalar: bool, right: Any, right_is_scalar: bool, div_or_mod: bool) -> Any:
        key = (left.name, left_is_scalar, right.name, right_is_scalar, div_or_mod)
        if key not in promoted:
            promoted[key] = plain_type(left, left_is_scalar, right, right_is_scalar, div_or_mod)
        return promoted[key]

    plain_check: Callable[..., tuple[Any, Any]] = patches.set(semantic, "binary_op_type_checking_impl", check)
    plain_broadcast: Callable[[Any, Any], tuple[Any, Any]] = patches.set(semantic, "broadcast_impl_value", broadcast)
    plain_cast: Callable[..., Any] = patches.set(semantic, "cast", cast)
    plain_type: Callable[..., Any] = patches.set(semantic, "computation_type_impl", common_type)
