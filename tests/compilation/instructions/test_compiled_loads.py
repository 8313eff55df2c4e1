"""Loads of a compiled kernel, by whether they use the L1 and how they leave it."""

from __future__ import annotations

import pytest

from ioaware.compilation.instructions.compiled_loads import CompiledLoad, compiled_loads

COPY = "ttg.async_copy_global_to_local %p, %m : tensor<64x!tt.ptr<f16>> loc(#loc1)\n"
LOCATION = '#loc1 = loc("/a/kernel.py":7:3)\n'


@pytest.mark.parametrize(
    ("ttgir", "ptx", "by_l1"),
    [
        ("%0 = tt.load %p : tensor<64x!tt.ptr<f16>> loc(#loc1)\n", "ld.global.b32", True),
        ("%0 = tt.load %p cacheModifier = cg : tensor<64x!tt.ptr<f16>> loc(#loc1)\n", "ld.global.cg.b32", False),
        (COPY, "cp.async.cg.shared.global [%r1], [%rd1], 16;", False),
        (COPY, "cp.async.ca.shared.global [%r1], [%rd1], 4;", True),
    ],
)
def test_loads_by_l1(ttgir: str, ptx: str, by_l1: bool) -> None:
    assert compiled_loads(ttgir + LOCATION, ptx) == (CompiledLoad("kernel.py:7", by_l1),)


def test_loads_name_their_eviction() -> None:
    load = "%0 = tt.load %p, %m cacheModifier = ca evictionPolicy = evict_last : tensor<64x!tt.ptr<f16>> loc(#loc1)\n"
    assert compiled_loads(load + LOCATION, "ld.global.b32") == (CompiledLoad("kernel.py:7", True, "evict_last"),)
