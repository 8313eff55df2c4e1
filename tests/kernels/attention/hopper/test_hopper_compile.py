"""Machine code of the Hopper forward kernel for sm_90a: no spills.

Both matmuls overlap.

wgmma is not serialised, the common path has no maxima, and no uniform register is read on a path that never wrote it.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

from ioaware.kernels.attention.hopper.forward_config import FEW, LONG, MEDIUM, SHORT, WIDE, Plan
from ioaware.kernels.attention.hopper.forward_kernel import hopper_forward_kernel
from ioaware.kernels.attention.launching.launch import HOPPER_SHARED_BYTES
from tests.support.machine_code import Code, compile_for_hopper, ptxas_report, undefined_reads


def compile_kernel(plan: Plan, width: int, dtype: str, *, causal: bool, kv_len: int = 4096) -> Any:
    """Compile the kernel as `hopper_forward` launches it for 4096 rows."""
    constants = plan.constants(4096, kv_len, causal=causal)
    element = {"fp16": gl.float16, "bf16": gl.bfloat16}[dtype]

    def descriptor(rows: int) -> str:
        layout = gl.NVMMASharedLayout.get_default_for([1, 1, rows, width], element)
        return f"tensordesc<{dtype}[1, 1, {rows}, {width}],{layout!r}>"

    tensors = {"Q": descriptor(64), "O": descriptor(64), "K": descriptor(plan.block_n), "V": descriptor(plan.block_n)}
    others = {"Lse": "*fp32", "scale_log2": "fp32", **dict.fromkeys(constants, "constexpr")}
    signature = {name: {**tensors, **others}.get(name, "i32") for name in hopper_forward_kernel.arg_names}
    source = GluonASTSource(hopper_forward_kernel, signature, constants)
    return compile_for_hopper(source, num_warps=4)


REGISTERS = {2: 168, 3: 128, 4: 96}
"""Registers of a thread before setmaxnreg, by number of consumers.

They are an equal share of 64 K with the producer.
"""


@pytest.mark.parametrize(
    ("plan", "width", "dtype", "causal", "kv_len"),
    [
        (FEW, 64, "bf16", True, 4096),
        (SHORT, 64, "bf16", True, 4096),
        (SHORT, 64, "fp16", True, 4100),
        (SHORT, 64, "fp16", False, 4096),
        (SHORT, 64, "bf16", False, 4100),
        (LONG, 64, "fp16", False, 4096),
        (LONG, 64, "bf16", True, 4096),
        (LONG, 64, "bf16", True, 4100),
        (MEDIUM, 128, "fp16", True, 4096),
        (MEDIUM, 128, "bf16", True, 4100),
        (WIDE, 256, "bf16", True, 4096),
        (WIDE, 256, "bf16", True, 4100),
        (WIDE, 256, "fp16", False, 4096),
        (WIDE, 256, "fp16", False, 4100),
    ],
)
def test_machine_code(tmp_path: Path, plan: Plan, width: int, dtype: str, causal: bool, kv_len: int) -> None:
    kernel = compile_kernel(plan, width, dtype, causal=causal, kv_len=kv_len)
    assert kernel.metadata.shared <= HOPPER_SHARED_BYTES

    report = ptxas_report(kernel, tmp_path)
    assert not re.search(r"C75\d\d", report), report  # wgmma serialised, setmaxnreg ignored
    assert f"Used {REGISTERS[plan.consumers]} registers" in report

    code = Code.of(kernel, tmp_path)
    assert not [x for x in code.instructions if re.search(r"\b(STL|LDL)\b", x)]
    assert any(f"USETMAXREG.TRY_ALLOC.CTAPOOL UP0, {plan.registers:#x}" in x for x in code.instructions)
    assert undefined_reads(code) == []

    if width == 128:  # Q K_0^T of half a block by the first of two consumers; all else is 128 wide
        assert sum("HGMMA.64x64x16" in x for x in code.instructions) == (width // 16 if kv_len == 4096 else 0)

    spans = code.inner_loops()
    assert len(spans) == plan.consumers
    for begin, end in spans:
        loop = code.instructions[begin:end]
        matmuls, waits, exponentials = (
            [i for i, x in enumerate(loop) if re.search(pattern, x)] for pattern in ("HGMMA", "DEPBAR.LE gsb0", r"MUFU\.EX2")
        )
        # Q K^T in steps of 16 columns of Q, P V in steps of 16 rows of V; both start before the first wait
        assert len(matmuls) == width // 16 + plan.block_n // 16
        assert len(waits) == 2
        assert max(matmuls) < min(waits)
        assert min(exponentials) > min(waits)
        # five branches: waits for K and V, around the rescaling of each half of P, and the loop
        # a sixth, for a mask, delays the exponentials
        assert (sum("BRA" in x for x in loop) > 5) == (causal and kv_len != 4096)

        common_path = Counter(x.split()[0].split(".")[0] for x in common_path_of(code, begin, end) if not x.startswith("@"))
        assert common_path["VOTE"] == 2
        assert common_path["MUFU"] == plan.block_n // 2  # a thread has half a row of S, and no rescaling factor
        assert common_path["SHFL"] == 0
        assert common_path["FMUL"] == 2  # m of two rows times the scale; O is rescaled only with P
        if kv_len == 4096:
            assert common_path["FMNMX"] == 0
        whole_loop = Counter(x.split()[0].split(".")[0] for x in loop)
        assert whole_loop["FMUL"] >= 2 + 2 * width // 2  # O in the rescaling of either half
        assert whole_loop["FMNMX"] >= plan.block_n // 2


def common_path_of(code: Code, begin: int, end: int) -> list[str]:
    """Return the instructions of a loop when no vote requires a rescaling."""
    taken: list[str] = []
    voted, i = False, begin
    while i < end:
        taken.append(code.instructions[i])
        voted = voted or taken[-1].startswith("VOTE.")
        target = code.target(i)
        if voted and target is not None and i < target <= end and i + 50 < target:
            voted, i = False, target
        else:
            i += 1
    return taken


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_warp_scheduler_barriers(tmp_path: Path, causal: bool) -> None:
    """Consumer C waits at its own barrier before its matmuls.

    It then arrives at the next consumer's.
    """
    code = Code.of(compile_kernel(LONG, 64, "bf16", causal=causal), tmp_path)
    barrier = re.compile(r"\bBAR\.(SYNC|ARV)\S* (0x\w+)(, 0x100)?")
    found = [(one[1], int(one[2], 0), bool(one[3])) for x in code.instructions if (one := barrier.search(x))]
    assert max(number for _, number, is_scheduler in found if not is_scheduler) < 8  # Triton's own barriers
    waits, arrivals = (
        Counter(number for kind, number, is_scheduler in found if is_scheduler and kind == which) for which in ("SYNC", "ARV")
    )
    unused = {8, 9} if causal else set[int]()  # syncs for blocks that only later consumers see
    assert waits == Counter([8, 9, 10, *unused])
    assert arrivals == Counter([9, 10, 8, *(number + 1 for number in unused), 8])  # and the initial arrival
    order: list[list[str]] = []
    for loop in code.matmul_loops():
        names = [one[1] + one[2] if (one := barrier.search(x)) and one[3] else x.split()[0] for x in loop]
        order.append([name for name in names if re.match(r"SYNC0|ARV0|HGMMA|WARPGROUP.DEPBAR", name)])
    matmuls = ["HGMMA.64x128x16.F32.BF16"] * 4 + ["HGMMA.64x64x16.F32.BF16"] * 8
    waited = ["WARPGROUP.DEPBAR.LE"] * 2
    assert sorted(order) == sorted([f"SYNC{8 + c:#x}", *matmuls, f"ARV{8 + (c + 1) % 3:#x}", *waited] for c in range(3))


def test_spills_of_a_plan_with_too_few_registers_are_detected(tmp_path: Path) -> None:
    starved = Plan(block_n=256, stages=2, consumers=2, registers=240, q_slots=2, separate_o_smem=False)
    kernel = compile_kernel(starved, 64, "fp16", causal=False)
    assert "C7512" in ptxas_report(kernel, tmp_path)
    assert [x for x in Code.of(kernel, tmp_path).instructions if re.search(r"\b(STL|LDL)\b", x)]
