"""Accesses of which several instructions touch a line."""

from __future__ import annotations

import pytest

from ioaware.compilation.compiled_accesses import Access
from ioaware.compilation.instructions.line_sharing import STARTS, SharedLines, _by_start, shared_lines
from ioaware.compilation.layouts import blocked

ROW = (1024,)


def by_start(per_thread: int, vector: int, *, warps: int = 4, element_bytes: int = 2, once: bool = False) -> tuple[float, ...]:
    layout = blocked((per_thread,), (32,), (warps,), (0,))
    return _by_start(Access("read", ("k.py:1",), ROW, layout, vector, warps, once, element_bytes=element_bytes))


def test_wide_loads_share_lines_where_rows_begin_inside_one() -> None:
    """Of the five lines of 512 bytes two are those of neighbours, too."""
    aligned, *others = by_start(8, 8)
    assert aligned == 0
    assert len(others) + 1 == len(STARTS)
    assert {round(one * 17) for one in others} == {3}


@pytest.mark.parametrize(("per_thread", "vector"), [(8, 1), (8, 4), (1, 1)])
def test_narrow_loads_share_every_line(per_thread: int, vector: int) -> None:
    assert min(by_start(per_thread, vector)) >= 15 / 17


def test_loads_as_wide_as_a_line_share_none() -> None:
    assert by_start(1, 1, element_bytes=4)[0] == 0


def test_a_scalar_is_loaded_by_each_warp() -> None:
    ttgir = """module attributes {"ttg.num-warps" = WARPS : i32} {
    %0 = tt.load %p : !tt.ptr<f32> loc(#loc1)
    }
    #loc1 = loc("/a/kernel.py":7:3)
    """.replace("    ", "")
    ptx = ".loc 1 7 3\nld.global.b32 { %r1 }, [ %rd1 + 0 ];\n"
    for warps, shared in ((1, 0.0), (4, 1.0)):
        found = shared_lines(ttgir.replace("WARPS", str(warps)), ptx)
        assert found == (SharedLines("read", "kernel.py:7", (shared,) * len(STARTS)),)


def test_a_kernel_with_an_unknown_layout_has_none() -> None:
    ttgir = (
        '%0 = tt.load %p : tensor<64x!tt.ptr<f16>, #mine> loc(#loc1)\n#loc1 = loc("/a/kernel.py":7:3)\n"ttg.num-warps" = 4\n'
    )
    assert shared_lines(ttgir, "") == ()
