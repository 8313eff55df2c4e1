"""Cache what Triton's interpreter computes of shapes and types.

Every operation creates a tensor, and often a block type. A kernel has few shapes, and the language holds each as a tuple of
constants, which it never changes. Most operands have one shape and one type, and need no conversion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton.language as _tl
from triton.runtime import interpreter as _interpreter

from ioaware._monkeypatch import Patches

tl: Any = _tl
interpreter: Any = _interpreter

INTEGERS = frozenset({int})
"""Not bool, whose instances equal integers."""
OF_BLOCK_TYPE = {"element_ty", "shape", "numel", "name"}
"""Attributes of an instance; one that has others is not shared."""
OF_TENSOR = {"handle", "shape", "numel", "type", "dtype"}
"""Attributes of a tensor."""


def install(patches: Patches) -> None:
    """Let block types and tensors of one shape share its tuple.

    Operands that share it are not broadcast, and those of one type not cast.
    """
    sizes = _Sizes()
    _cache_block_types(patches, sizes)
    _cache_tensors(patches, sizes)
    _skip_conversions(interpreter.interpreter_semantic, patches)


class _Sizes:
    """Shapes as plain integers, also by the identity of the tuples that values share."""

    def __init__(self) -> None:
        self._shared: dict[int, tuple[int, ...]] = {}
        self._alive: list[Any] = []

    def share(self, shape: Any, sizes: tuple[int, ...]) -> Any:
        """Remember a tuple that values will share, and return it."""
        self._shared[id(shape)] = sizes
        self._alive.append(shape)
        return shape

    def of(self, shape: Any) -> tuple[int, ...] | None:
        """Return a shape as plain integers.

        None where it has others, which Triton judges.
        """
        if (shared := self._shared.get(id(shape))) is not None:
            return shared
        if not isinstance(shape, (list, tl.tuple)):
            return None
        sizes = tuple([size.value if isinstance(size, tl.constexpr) else size for size in shape])
        return sizes if INTEGERS.issuperset(map(type, sizes)) else None


def _cache_block_types(patches: Patches, shapes: _Sizes) -> None:
    known: dict[tuple[int, ...], tuple[Any, int, str]] = {}

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

    plain: Callable[[Any, Any, Any], None] = patches.set(tl.block_type, "__init__", initialise)


def _cache_tensors(patches: Patches, shapes: _Sizes) -> None:
    known: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def initialise(tensor: Any, handle: Any, type: Any) -> None:
        sizes = shapes.of(type.shape) if type.is_block() else ()
        if sizes in known:
            tensor.handle, tensor.type, tensor.dtype = handle, type, type.scalar
            tensor.shape, tensor.numel = known[sizes]
            return
        plain(tensor, handle, type)
        if sizes is not None and tensor.__dict__.keys() == OF_TENSOR:
            known[sizes] = shapes.share(tensor.shape, sizes), tensor.numel

    plain: Callable[[Any, Any, Any], None] = patches.set(tl.tensor, "__init__", initialise)


def _skip_conversions(semantic: Any, patches: Patches) -> None:
    """Return operands that need no broadcast or cast at once.

    Triton returns them too, after looking at each size.
    """
    promoted: dict[tuple[Any, ...], Any] = {}

    def broadcast(lhs: Any, rhs: Any) -> tuple[Any, Any]:
        left, right = lhs.type, rhs.type
        if left is right or (left.is_block() and right.is_block() and left.shape is right.shape):
            return lhs, rhs
        return plain_broadcast(lhs, rhs)

    def cast(value: Any, kind: Any, *rounding: Any, **options: Any) -> Any:
        return value if value.type.scalar is kind.scalar else plain_cast(value, kind, *rounding, **options)

    def common_type(left: Any, left_is_scalar: bool, right: Any, right_is_scalar: bool, div_or_mod: bool) -> Any:
        key = (left.name, left_is_scalar, right.name, right_is_scalar, div_or_mod)
        if key not in promoted:
            promoted[key] = plain_type(left, left_is_scalar, right, right_is_scalar, div_or_mod)
        return promoted[key]

    plain_broadcast: Callable[[Any, Any], tuple[Any, Any]] = patches.set(semantic, "broadcast_impl_value", broadcast)
    plain_cast: Callable[..., Any] = patches.set(semantic, "cast", cast)
    plain_type: Callable[..., Any] = patches.set(semantic, "computation_type_impl", common_type)
