"""Decode compiled for sm_90 without a GPU: no spills, one resident wave.

No load comes before the wait.
"""

# Triton's functions have no Python types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ioaware.kernels.attention.decode.kernels import combine_kernel, decode_kernel
from ioaware.kernels.attention.decode.num_splits import plan_splits
from ioaware.kernels.attention.launching.launch import HOPPER_SHARED_BYTES
from tests.support.machine_code import spilled_bytes

TYPES = {"Q": "*bf16", "K": "*bf16", "V": "*bf16", "scale_log2": "fp32"}
PARTS = {"O": "*fp32", "Lse": "*fp32", "O_split": "*fp32", "Lse_split": "*fp32"}
SPILLED = 16 if triton.__version__.startswith("3.9") else 0
"""Triton 3.9.0 spills this much at d 256 in blocks of 32."""
NOT_OF_16 = ("seq_len", "group", "splits", "scale_log2", "heads")


def compile_kernel(kernel: Any, constants: dict[str, Any], **options: Any) -> Any:
    """Compile the kernel as it is launched for contiguous tensors."""
    signature: dict[str, str] = {}
    attributes: dict[tuple[int, ...], list[list[object]]] = {}
    for position, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name] = "constexpr"
        elif re.fullmatch("stride_.d", name):
            signature[name], constants[name] = "constexpr", 1
        else:
            signature[name] = (TYPES | PARTS).get(name, "i32")
            if name not in NOT_OF_16:
                attributes[(position,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, constants, attributes)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("key_heads", [8, 70])
def test_decode(head_dim: int, key_heads: int, tmp_path: Path) -> None:
    plan = plan_splits(key_heads, 16, head_dim, 2, processors=132, shared_bytes=HOPPER_SHARED_BYTES)
    constants = {
        "CAUSAL": False, "HEAD_DIM": head_dim, "WIDTH": plan.width, "ROWS": plan.rows, "BLOCK_N": plan.block_n,
        "ALIGNMENT": 16, "OVERLAP": True,
    }  # fmt: skip
    kernel = compile_kernel(decode_kernel, constants, num_warps=plan.num_warps, num_stages=plan.num_stages)
    resident = -(-key_heads * plan.tiles * plan.splits // 132)
    assert spilled_bytes(kernel, tmp_path) <= SPILLED
    assert resident * kernel.metadata.shared <= HOPPER_SHARED_BYTES  # all programs are resident
    assert kernel.asm["ptx"].count("griddepcontrol.launch_dependents") == 1


def test_the_combine_kernel_waits_before_it_reads(tmp_path: Path) -> None:
    """It is launched while decode still writes its splits."""
    constants = {"HEAD_DIM": 128, "COLS": 32, "AT_ONCE": 64, "OVERLAP": True}
    kernel = compile_kernel(combine_kernel, constants, num_warps=1, launch_pdl=True)
    code = kernel.asm["ptx"]
    assert spilled_bytes(kernel, tmp_path) == 0
    assert kernel.metadata.launch_pdl
    assert code.count("griddepcontrol.wait") == 1
    wait = code.index("griddepcontrol.wait")
    assert wait < min(found.start() for found in re.finditer(r"ld\.global|st\.global", code))
