"""Reductions to global memory in inline assembly are counted.

Unknown instructions are refused.
"""

from __future__ import annotations

import pytest
import triton
import triton.language as tl

from ioaware.errors import UsageError
from tests.support.ir_zoo.compiled import Launched, Tensor, symbols

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")

G = symbols("G")
ONE_BY_ONE = tl.constexpr("red.global.add.f32 [$1], $2;\nmov.b32 $0, 0;")
FOUR_AT_ONCE = tl.constexpr(
    "red.global.add.v4.f32 [$4], {$8, $9, $10, $11};\nmov.b32 $0, 0;\nmov.b32 $1, 0;\nmov.b32 $2, 0;\nmov.b32 $3, 0;"
)
KEPT = tl.constexpr("{ .reg .b64 keep; mov.b64 keep, 0; red.global.add.L2::cache_hint.f32 [$1], $2, keep; }\nmov.b32 $0, 0;")
SHARED = tl.constexpr("ld.shared.f32 $0, [$1];")
TWICE = tl.constexpr("red.global.add.f32 [$1], $2;\nred.global.add.f32 [$1], $2;\nmov.b32 $0, 0;")
PREFETCH = tl.constexpr("prefetch.global.L2 [$1];\nmov.b32 $0, 0;")
ROUNDED = tl.constexpr("cvt.rn.f32.f32 $0, $1;")


@triton.jit
def adds(x, B: tl.constexpr, ASM: tl.constexpr, CONSTRAINTS: tl.constexpr, PACK: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    where = x.to(tl.int64) + at.to(tl.int64) * 4
    for _ in range(3):
        tl.inline_asm_elementwise(ASM, CONSTRAINTS, [where, at.to(tl.float32)], tl.int32, is_pure=False, pack=PACK)


@triton.jit
def computes(x, B: tl.constexpr, ASM: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    y = tl.inline_asm_elementwise(ASM, "=r,r", [tl.load(x + at)], tl.float32, is_pure=True, pack=1)
    tl.store(x + at, y)


SINGLE, PACKED = "=r,l,r", "=r,=r,=r,=r,l,l,l,l,r,r,r,r"


def launch_of(asm: tl.constexpr, constraints: str, pack: int) -> Launched:
    constants = {"B": 64, "ASM": asm.value, "CONSTRAINTS": constraints, "PACK": pack}
    return Launched(adds, [Tensor(64 * G)], [G], [], constants)


@pytest.mark.parametrize(
    ("asm", "constraints", "pack"), [(ONE_BY_ONE, SINGLE, 1), (KEPT, SINGLE, 1), (FOUR_AT_ONCE, PACKED, 4)]
)
def test_each_execution_adds_once_to_each_element(asm: tl.constexpr, constraints: str, pack: int) -> None:
    derived = launch_of(asm, constraints, pack).derive()
    assert derived.exact
    assert derived.atomic_bytes.evaluate({"G": 5}) == 5 * 3 * 64 * 4
    assert derived.read_bytes.evaluate({"G": 5}) == derived.write_bytes.evaluate({"G": 5}) == 0


@pytest.mark.parametrize(("asm", "constraints", "pack"), [(TWICE, SINGLE, 1), (FOUR_AT_ONCE, PACKED, 8), (PREFETCH, SINGLE, 1)])
def test_assembly_with_unknown_accesses_is_refused(asm: tl.constexpr, constraints: str, pack: int) -> None:
    if pack == 8:
        constraints = ",".join(["=r"] * 8 + ["l"] * 8 + ["r"] * 8)
    with pytest.raises(UsageError, match=r"assembly (with memory accesses|that prefetches)"):
        launch_of(asm, constraints, pack).derive()


@pytest.mark.parametrize("asm", [ROUNDED, SHARED])
def test_assembly_without_global_memory_adds_nothing(asm: tl.constexpr) -> None:
    derived = Launched(computes, [Tensor(64 * G)], [G], [], {"B": 64, "ASM": asm.value}).derive()
    assert derived.atomic_bytes.evaluate({"G": 5}) == 0
    assert derived.read_bytes.evaluate({"G": 5}) == derived.write_bytes.evaluate({"G": 5}) == 5 * 64 * 4
