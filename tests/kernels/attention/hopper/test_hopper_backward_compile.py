"""Machine code of the Hopper backward kernels for sm_90a.

There are no spills, and wgmma is not serialised.

Additions to dQ are of four numbers each, and no uniform register is read on a path that never wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

from ioaware.kernels.attention.hopper.backward import FUSED, KEYS_VALUES, QUERIES
from ioaware.kernels.attention.hopper.backward_pass.backward_config import FUSED_ROWS
from ioaware.kernels.attention.hopper.backward_pass.backward_kernel import hopper_backward_kernel
from ioaware.kernels.attention.hopper.backward_pass.dkdv_kernel import dkdv_kernel
from ioaware.kernels.attention.hopper.backward_pass.dq_kernel import dq_kernel
from ioaware.kernels.attention.hopper.gluon_compat import SINCE_3_9
from ioaware.kernels.attention.launching.launch import HOPPER_SHARED_BYTES
from tests.support.machine_code import Code, compile_for_hopper, ptxas_report, spilled_bytes, undefined_reads


def compile_kernel(
    kernel: Any, boxes: Mapping[str, int | tuple[int, int]], width: int, dtype: str, constants: Mapping[str, Any]
) -> Any:
    """Compile the kernel as `hopper_backward` launches it.

    It has boxes of these rows, or of rows and columns.
    """
    element = {"fp16": gl.float16, "bf16": gl.bfloat16}[dtype]

    def descriptor(rows: int, columns: int) -> str:
        layout = gl.NVMMASharedLayout.get_default_for([1, 1, rows, columns], element)
        return f"tensordesc<{dtype}[1, 1, {rows}, {columns}],{layout!r}>"

    tensors = {name: descriptor(*(box if isinstance(box, tuple) else (box, width))) for name, box in boxes.items()}
    others = {
        "Rows": "*fp32",
        "Sums": "*fp32",
        "Parts": "*fp32",
        "scale": "fp32",
        "scale_log2": "fp32",
        **dict.fromkeys(constants, "constexpr"),
    }
    signature = {name: {**tensors, **others}.get(name, "i32") for name in kernel.arg_names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(kernel.arg_names) if name in ("Rows", "Sums", "Parts")}
    source = GluonASTSource(kernel, signature, dict(constants), aligned)
    return compile_for_hopper(source, num_warps=4)


def check_code(kernel: Any, folder: Path) -> Code:
    """Return the kernel's machine code after the checks common to all kernels."""
    assert kernel.metadata.shared <= HOPPER_SHARED_BYTES
    report = ptxas_report(kernel, folder)
    assert not re.search(r"C75\d\d", report), report  # wgmma serialised, setmaxnreg ignored
    assert "Used 168 registers" in report
    code = Code.of(kernel, folder)
    assert undefined_reads(code) == []
    assert spilled_bytes(kernel, folder) == 0
    return code


def matmul_loops(code: Code) -> list[list[str]]:
    loops = code.matmul_loops()
    assert len(loops) == 2  # one of each consumer
    return loops


def count(pattern: str, instructions: list[str]) -> int:
    return sum(bool(re.search(pattern, x)) for x in instructions)


FUSED_BOXES: Mapping[int, Mapping[str, int | tuple[int, int]]] = {
    width: {"Q": rows, "dO": rows, "K": 128, "V": 128, "dQ": (64, 64), "dK": 64, "dV": 64} for width, rows in FUSED_ROWS.items()
}


@pytest.mark.parametrize(("whole", "split"), [(False, False), (True, False), (False, True)], ids=["blocks", "whole", "split"])
@pytest.mark.parametrize(("causal", "masked"), [(False, 0), (False, 2), (True, 1), (True, 2)])
@pytest.mark.parametrize(
    ("width", "dtype"),
    [(64, "bf16"), (64, "fp16"), (128, "bf16")],  # at 128 columns both dtypes have the same code
)
def test_fused_kernel(tmp_path: Path, width: int, dtype: str, causal: bool, masked: int, whole: bool, split: bool) -> None:
    if (width, masked) == (64, 1) or (causal and split) or (SINCE_3_9.value and (width, masked, split) == (128, 2, True)):
        return  # no such plan
    block_m = FUSED_ROWS[width]
    hold = not whole and (width == 128 or (dtype == "bf16" and not causal))
    constants = {"CAUSAL": causal, "MASKED": masked, "WHOLE": whole, "SPLIT": split, "HOLD": hold, "BLOCK_M": block_m, **FUSED}
    code = check_code(compile_kernel(hopper_backward_kernel, FUSED_BOXES[width], width, dtype, constants), tmp_path)
    for loop in matmul_loops(code):
        # S and dP in steps of 16 columns, dV and dK in steps of 16 rows, dQ in steps of 16 of the 128 keys
        assert count("HGMMA", loop) == 2 * width // 16 + 2 * block_m // 16 + 128 // 16
        assert count(r"MUFU\.EX2", loop) == block_m // 2
        assert count(r"RED.*ADD\.F32x4.*\.GPU", loop) == 64 * 64 // (128 * 4)
        assert count(r"\b(RED|ATOM)", loop) == 64 * 64 // (128 * 4)
        assert count(r"\bSTG", loop) == (64 * 64 // (128 * 4) if whole else 0)


@pytest.mark.parametrize(("width", "masked"), [(256, 0), (256, 1), (256, 2), (128, 0), (64, 2)])
def test_dkdv_and_dq_kernels(tmp_path: Path, width: int, masked: int) -> None:
    constants: dict[str, Any] = {"CAUSAL": masked > 0, "MASKED": masked, **KEYS_VALUES}
    boxes: dict[str, int | tuple[int, int]] = dict.fromkeys(("Q", "K", "V", "dO", "dK", "dV"), 64)
    code = check_code(compile_kernel(dkdv_kernel, boxes, width, "bf16", constants), tmp_path)
    for loop in matmul_loops(code):
        matmuls, waits = ([i for i, x in enumerate(loop) if re.search(p, x)] for p in ("HGMMA", "DEPBAR.LE gsb0"))
        assert len(matmuls) == width // 16 + 64 // 16
        assert max(matmuls) < min(waits)  # both start before the first wait
    for_dk, for_dv = sorted(matmul_loops(code), key=lambda loop: count(r"MUFU\.EX2", loop))
    assert (count("BRA", for_dv) > count("BRA", for_dk)) == (masked == 2)  # a branch around the mask

    constants = {"CAUSAL": masked > 0, "MASKED": masked, **QUERIES[width]}
    block_n = QUERIES[width]["BLOCK_N"]
    boxes = {"Q": 64, "dO": 64, "dQ": 64, "K": block_n, "V": block_n}
    for loop in matmul_loops(check_code(compile_kernel(dq_kernel, boxes, width, "fp16", constants), tmp_path)):
        assert count("HGMMA", loop) == 2 * width // 16 + block_n // 16
        assert count(r"MUFU\.EX2", loop) == block_n // 2
        assert count("BRA", loop) == (4 if masked == 2 else 3)  # two waits, the loop, and a branch around the mask


def test_spills_of_a_kernel_with_too_few_registers_are_detected(tmp_path: Path) -> None:
    constants = {
        "CAUSAL": False,
        "MASKED": 0,
        "WHOLE": False,
        "SPLIT": False,
        "HOLD": True,
        "BLOCK_M": 64,
        "STAGES": 2,
        "REGISTERS": 208,
    }
    starved = compile_kernel(hopper_backward_kernel, FUSED_BOXES[128], 128, "bf16", constants)
    assert spilled_bytes(starved, tmp_path) > 0
