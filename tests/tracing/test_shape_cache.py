"""Block types and tensors of the interpreter are the same with shared shapes."""

from __future__ import annotations

from typing import Any

import pytest
import triton.language as _tl

from ioaware._monkeypatch import Patches
from ioaware.tracing.shape_cache import install

tl: Any = _tl
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
