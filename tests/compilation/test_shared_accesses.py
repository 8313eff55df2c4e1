"""Accesses to shared memory by reductions: TTGIR's and the claim's are equal."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ioaware.analysis.theory.claims.io.softmax_accesses import REDUCTIONS, shared_accesses
from ioaware.capture.capture import capture
from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.shared_accesses import RowReduction, row_reductions
from ioaware.compilation.triton_ir import compiled
from ioaware.targets.target import load_target

HOPPER = GPUTarget("cuda", 90, 32)


@triton.jit
def nested(x, out, rows, cols, BLOCK: tl.constexpr):
    total = tl.sum(tl.load(x + tl.arange(0, BLOCK)).to(tl.float32), 0)
    for row in range(rows):
        for start in range(0, cols, BLOCK):
            total += tl.max(tl.load(x + row * cols + start + tl.arange(0, BLOCK)).to(tl.float32), 0)
    tl.store(out, total)


@triton.jit
def columns(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.sum(tl.load(x + at[:, None] * BLOCK + at[None, :]), 0))


def ttgir_of(kernel: Any, warps: int, **types: str) -> str:
    source = ASTSource(kernel, {**types, "BLOCK": "constexpr"}, {(len(types),): 64})
    return triton.compile(source, target=HOPPER, options={"num_warps": warps}).asm["ttgir"]


@pytest.mark.parametrize("warps", [1, 4])
def test_reductions_are_found_with_their_loops(warps: int) -> None:
    found = row_reductions(ttgir_of(nested, warps, x="*fp32", out="*fp32", rows="i32", cols="i32"))
    assert found == (RowReduction(warps, 0), RowReduction(warps, 2))
    assert [(one.stores, one.loads) for one in found] == [(5, 5) if warps == 4 else (0, 0)] * 2


def test_a_reduction_to_a_tensor_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shared memory|not of a row"):
        row_reductions(ttgir_of(columns, 4, x="*fp32", out="*fp32"))


@pytest.mark.slow
@pytest.mark.parametrize("cols", [4096, 16384])
@pytest.mark.parametrize("case", list(REDUCTIONS))
def test_the_claims_count_is_that_of_the_compiled_kernels(case: str, cols: int) -> None:
    """Each loop over a row has as many steps as it has chunks of block_n columns."""
    target = load_target(case)
    whole = case.endswith("one_read")
    params = target.resolve({"rows": 8, "cols": cols, "dtype": "float16"} | ({} if whole else {"block_n": 1024}))
    accesses = 0
    captured = capture(target, params)
    for launch in captured.events:
        assert isinstance(launch, CapturedLaunch)
        trips = 1 if whole else cols // 1024
        found = row_reductions(compiled(launch, captured.values, HOPPER).asm["ttgir"])
        accesses += 8 * sum(one.stores * trips**one.loops for one in found)
    assert accesses == shared_accesses(case, 8, cols, cols if whole else 1024)
