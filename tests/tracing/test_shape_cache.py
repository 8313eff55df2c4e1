"""Block types and tensors of the interpreter are the same with shared shapes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import triton.language as _tl
from triton.language.semantic import IncompatibleTypeErrorImpl
from triton.runtime import interpreter as _interpreter

from ioaware._monkeypatch import Patches
from ioaware.tracing.shape_cache import install

tl: Any = _tl
interpreter: Any = _interpreter
SHAPES = ([16], [16, 1], [1, 16], [4, 4, 4], [tl.constexpr(16), 1])


def described(shape: Any, element: Any) -> list[Any]:
    block = tl.block_type(element, shape)
    tensors = [tl.tensor(None, block), tl.tensor(None, block.with_element_ty(tl.int1)), tl.tensor(None, element)]
    of_tensors = [(str(one.type), one.dtype, [*map(int, one.shape)], one.numel.value, str(one.shape)) for one in tensors]
    return [block.name, block.element_ty, [*block.shape], block.numel, str(block.shape), *of_tensors]


@pytest.mark.parametrize("element", [tl.float32, tl.pointer_type(tl.float16)], ids=str)
def test_a_shared_shape_changes_no_value(element: Any) -> None:
    plain = [described(shape, element) for shape in SHAPES]
    with Patches() as patches:
        install(patches)
        assert [described(shape, element) for shape in SHAPES * 2] == plain * 2
        assert tl.block_type(element, [16, 1]).shape is tl.block_type(tl.int32, [16, 1]).shape
    assert tl.block_type(element, [16, 1]).shape is not tl.block_type(tl.int32, [16, 1]).shape


def test_shapes_that_no_block_has_are_refused_each_time() -> None:
    with Patches() as patches:
        install(patches)
        for shape, error in (([3], ValueError), ([], TypeError), ([1.0], TypeError), ([True], None)):
            for _ in range(2):
                if error:
                    with pytest.raises(error):
                        tl.block_type(tl.int32, shape)
                else:
                    assert tl.block_type(tl.int32, shape).name == "<['True'], int32>"


NUMBERS = (0, 1, True, 1.0, -1, 0.0, -0.0, 2.5, 300, 2**40, 2**70, 1e300, float("nan"), tl.constexpr(1))
KINDS = (tl.int1, tl.int32, tl.uint32, tl.int64, tl.float16, tl.bfloat16, tl.float32, tl.float64)


def outcome(semantic: Any, name: str, *operands: Any) -> object:
    """Return types and values of a conversion, or the class of its error."""
    try:
        with np.errstate(all="ignore"):
            found = getattr(semantic, name)(*operands)
    except (AttributeError, TypeError, ValueError, IncompatibleTypeErrorImpl) as error:
        return type(error), str(error)
    parts = found if isinstance(found, tuple) else (found,)
    return [(str(one.type), str(one.handle.data)) if isinstance(one, tl.tensor) else str(one) for one in parts]


def filled(kind: Any, shape: tuple[int, ...]) -> Any:
    data = np.ones(shape or (1,), interpreter._get_np_dtype(kind))
    return tl.tensor(interpreter.TensorHandle(data, kind), tl.block_type(kind, list(shape)) if shape else kind)


def conversions() -> list[object]:
    """Return what Triton's interpreter makes of operands, twice."""
    semantic = interpreter.interpreter_semantic
    found: list[object] = []
    for left, right in [*product(KINDS, KINDS)] * 2:
        found.append(outcome(semantic, "cast", filled(left, (4, 2)), right))
        for scalars in product((False, True), repeat=3):
            found.append(outcome(semantic, "computation_type_impl", left, scalars[0], right, *scalars[1:]))
    for left, right in [*product([(), (4,), (2,), (4, 2), (1, 2), (4, 1)], repeat=2)] * 2:
        found.append(outcome(semantic, "broadcast_impl_value", filled(tl.int32, left), filled(tl.float32, right)))
    pointer = tl.pointer_type(tl.float32)
    of_another_space = tl.pointer_type(tl.float32, 3)  # of the same name
    for left, right in [*product((*KINDS, pointer), (*KINDS, pointer, of_another_space))] * 2:
        for shapes in (((), ()), ((4,), ()), ((4,), (4,)), ((4, 1), (1, 2))):
            operands = [filled(kind, shape) for kind, shape in zip((left, right), shapes, strict=True)]
            found += [outcome(semantic, name, *operands) for name in ("truediv", "less_than")]
            for flags in ((), (True, True), (False, False, True, True)):
                found.append(outcome(semantic, "binary_op_type_checking_impl", *operands, *flags))
    for number, kind in [*product(NUMBERS, (*KINDS, pointer))] * 2:
        tensors = [filled(kind, shape) for shape in ((), (4, 2))]
        for operands in [pair for one in tensors for pair in ((one, number), (number, one))]:
            for flags in ((), (True, True), (False, False, True, True)):
                found.append(outcome(semantic, "binary_op_type_checking_impl", *operands, *flags))
    return found


def forms() -> list[object]:
    """Return the interpreter's forms of types, or the class of its error."""
    builder = interpreter.interpreter_builder
    kinds: list[Any] = [*KINDS, tl.float8e4nv, tl.float8e4b8, tl.void, tl.pointer_type(tl.int8, 1, True)]
    found: list[object] = []
    for kind in [*kinds, *(tl.block_type(kind, [4, 2]) for kind in kinds)] * 2:
        try:
            form: Any = kind.to_ir(builder)
        except (AttributeError, ValueError) as error:
            found.append((type(error), str(error)))
        else:
            found.append((str(form), type(form), form.scalar == kind.scalar))
    return found


@pytest.mark.parametrize("made", [conversions, forms])
def test_operands_and_types_are_converted_as_triton_does(made: Callable[[], list[object]]) -> None:
    scope = interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    try:
        plain = made()
        with Patches() as patches:
            install(patches)
            assert made() == plain
    finally:
        scope.restore()
