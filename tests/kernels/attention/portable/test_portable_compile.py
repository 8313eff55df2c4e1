"""The portable kernels compiled for sm_90: few spills, 64-bit offsets.

TMA and wgmma are in use.
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

from ioaware.kernels.attention.launching.launch import HOPPER_SHARED_BYTES
from ioaware.kernels.attention.portable.backward import dkdv_kernel, dq_kernel
from ioaware.kernels.attention.portable.config import Blocks, backward_blocks, forward_blocks
from ioaware.kernels.attention.portable.forward import portable_forward_kernel
from tests.support.ir_zoo.compiled import ttir
from tests.support.machine_code import spilled_bytes

FLOAT32 = ("Lse", "Lse_log2", "Delta")
SPILLED = 8 if triton.__version__.startswith("3.9") else 0
"""Triton 3.9.0 spills this much at d 128 without a mask."""
BLOCK_ROWS = {"Q": "BLOCK_M", "O": "BLOCK_M", "dO": "BLOCK_M", "K": "BLOCK_N", "V": "BLOCK_N"}


def source(kernel: Any, dtype: str, head_dim: int, blocks: Blocks, *, tma: bool, **constants: Any) -> ASTSource:
    """Return the source for heads with their own keys.

    With pointers, strides are arbitrary.
    """
    width = 1 << (head_dim - 1).bit_length()
    given = {"BLOCK_M": blocks.block_m, "BLOCK_N": blocks.block_n, "HEAD_DIM": head_dim, "WIDTH": width, "TMA": tma, "group": 1}
    constants = {**given, **constants}
    signature: dict[str, str] = {}
    attributes: dict[tuple[int, ...], list[list[object]]] = {}
    for position, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name] = "constexpr"
        elif tma and re.fullmatch("stride_.*d", name):
            signature[name], constants[name] = "constexpr", 1
        elif name in FLOAT32:
            signature[name] = "*fp32"
        elif tma and name in BLOCK_ROWS and not (name == "O" and kernel is dkdv_kernel):
            signature[name] = f"tensordesc<{dtype}[1, 1, {constants[BLOCK_ROWS[name]]}, {width}]>"
        elif name in BLOCK_ROWS or name in ("dQ", "dK", "dV"):
            signature[name] = f"*{dtype}"
        else:
            signature[name] = "fp32" if name.startswith("scale") else "i32"
        if tma and (signature[name] == "i32" or signature[name].startswith("*")):
            attributes[(position,)] = [["tt.divisibility", 16]]
    return ASTSource(kernel, signature, constants, attributes)


def compile_kernel(kernel: Any, dtype: str, head_dim: int, blocks: Blocks, **constants: Any) -> Any:
    """Compile the kernel as it is launched with tensor descriptors.

    Compilation goes down to machine code.
    """
    options = {"num_warps": blocks.num_warps, "num_stages": blocks.num_stages, "enable_fp_fusion": True}
    given = source(kernel, dtype, head_dim, blocks, tma=True, **constants)
    return triton.compile(given, target=GPUTarget("cuda", 90, 32), options=options)


def check(kernel: Any, folder: Path, *, spilled: int = 0) -> None:
    assert spilled_bytes(kernel, folder) <= spilled
    assert kernel.metadata.shared <= HOPPER_SHARED_BYTES
    assert "cp.async.bulk.tensor" in kernel.asm["ptx"]
    assert "wgmma.mma_async" in kernel.asm["ptx"]


@pytest.mark.parametrize(
    ("head_dim", "seq_len", "causal"),
    [(64, 512, True), (40, 4096, False), (128, 2048, True), (128, 8192, True), (128, 8192, False), (256, 4096, True)],
)
def test_forward(tmp_path: Path, head_dim: int, seq_len: int, causal: bool) -> None:
    blocks = forward_blocks(head_dim, 2, seq_len, causal=causal, tma=True, shared_bytes=HOPPER_SHARED_BYTES)
    constants = {
        "CAUSAL": causal,
        "RAGGED": False,
        "SIGN": 1,
        "BY_ROWS": blocks.by_rows and causal,
        "LATE_SUMS": blocks.late_sums,
    }
    kernel = compile_kernel(portable_forward_kernel, "bf16", head_dim, blocks, **constants)
    check(kernel, tmp_path, spilled=SPILLED)
    assert kernel.asm["ttir"].count("scf.for") == 1
    assert kernel.asm["ttir"].count("scf.if") == causal  # the mask


@pytest.mark.parametrize(("head_dim", "seq_len", "spilled"), [(64, 512, 16), (128, 4096, 64), (256, 4096, 64)])
def test_backward(tmp_path: Path, head_dim: int, seq_len: int, spilled: int) -> None:
    blocks = backward_blocks(head_dim, 2, seq_len, tma=True)
    dq = compile_kernel(dq_kernel, "fp16", head_dim, blocks.dq, CAUSAL=True, RAGGED=False)
    check(dq, tmp_path, spilled=spilled)
    both = blocks.dk is None
    check(compile_kernel(dkdv_kernel, "fp16", head_dim, blocks.dkdv, CAUSAL=True, DK=both, DV=True), tmp_path, spilled=spilled)
    if blocks.dk is not None:
        check(
            compile_kernel(dkdv_kernel, "fp16", head_dim, blocks.dk, CAUSAL=True, DK=True, DV=False),
            tmp_path,
            spilled=spilled,
        )


def test_pointer_offsets_have_64_bits() -> None:
    blocks = forward_blocks(40, 2, 512, causal=True, tma=False, shared_bytes=HOPPER_SHARED_BYTES)
    backward = backward_blocks(40, 2, 512, tma=False)
    for kernel, tiles, constants in (
        (portable_forward_kernel, blocks, {"RAGGED": True, "SIGN": 1, "BY_ROWS": False, "LATE_SUMS": False}),
        (dq_kernel, backward.dq, {"RAGGED": True}),
        (dkdv_kernel, backward.dkdv, {"DK": True, "DV": True}),
    ):
        text = ttir(source(kernel, "fp16", 40, tiles, tma=False, CAUSAL=True, **constants))
        assert set(re.findall(r"tt\.addptr .* : tensor<\d+x\d+x!tt\.ptr<\w+>>, tensor<\d+x\d+x(i\d+)>", text)) == {"i64"}
        assert "i64" in re.findall(r"tt\.addptr .* : !tt\.ptr<\w+>, (i\d+)", text)
