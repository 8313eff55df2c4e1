"""The paper kernels compiled for sm_90: no spills, 64-bit offsets.

Shared memory is within limits.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ioaware.kernels.attention.decode.kernels import decode_kernel
from ioaware.kernels.attention.decode.num_splits import plan_splits
from ioaware.kernels.attention.flash1 import flash1_kernel
from ioaware.kernels.attention.flash2 import flash2_kernel
from ioaware.kernels.attention.launching.launch import HOPPER_SHARED_BYTES
from ioaware.kernels.attention.launching.on_chip_limits import flash1_options, flash2_options, softmax_options, standard_options
from ioaware.kernels.attention.standard import standard_output, standard_scores, standard_softmax
from tests.support.ir_zoo.compiled import ttir
from tests.support.machine_code import spilled_bytes

FLOAT32 = ("S", "L", "M", "Lse")
INTEGERS = ("group", "splits")


def source(
    kernel: Any, dtype: str, *, contiguous: bool = True, float32: tuple[str, ...] = FLOAT32, **constants: Any
) -> ASTSource:
    """Return the source for contiguous tensors, or for any tensors.

    The former have sizes divisible by 16.
    """
    constants = {param.name: param.default for param in kernel.params if param.has_default} | constants
    signature: dict[str, str] = {}
    attributes: dict[tuple[int, ...], list[list[object]]] = {}
    for position, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name] = "constexpr"
        elif contiguous and re.fullmatch("stride_.d", name):
            signature[name], constants[name] = "constexpr", 1
        elif name.startswith("scale"):
            signature[name] = "fp32"
        else:
            pointer = "*fp32" if name in float32 else f"*{dtype}"
            signature[name] = "i32" if name in INTEGERS or name.startswith("stride") or name.endswith("_len") else pointer
            if contiguous and name not in INTEGERS:
                attributes[(position,)] = [["tt.divisibility", 16]]
    return ASTSource(kernel, signature, constants, attributes)


def compile_kernel(kernel: Any, dtype: str, options: dict[str, int], **given: Any) -> Any:
    """Compile the kernel for contiguous tensors, down to machine code."""
    options = {**options, "enable_fp_fusion": True}
    return triton.compile(source(kernel, dtype, **given), target=GPUTarget("cuda", 90, 32), options=options)


@pytest.mark.parametrize(("block_m", "block_n", "head_dim"), [(32, 256, 128), (64, 64, 64)])
@pytest.mark.parametrize("causal", [False, True])
def test_flash1_spills_no_register(tmp_path: Path, causal: bool, block_m: int, block_n: int, head_dim: int) -> None:
    options = flash1_options(block_m, block_n, head_dim, 2, HOPPER_SHARED_BYTES)
    kernel = compile_kernel(flash1_kernel, "fp16", options, CAUSAL=causal, HEAD_DIM=head_dim, BLOCK_M=block_m, BLOCK_N=block_n)
    assert spilled_bytes(kernel, tmp_path) == 0
    assert kernel.metadata.shared <= HOPPER_SHARED_BYTES


@pytest.mark.parametrize(("block_m", "causal"), [(16, True), (64, False), (256, True)])
def test_flash2_spills_no_register(tmp_path: Path, block_m: int, causal: bool) -> None:
    options = flash2_options(block_m, 32, 128, 2, HOPPER_SHARED_BYTES)
    kernel = compile_kernel(flash2_kernel, "fp16", options, CAUSAL=causal, HEAD_DIM=128, BLOCK_M=block_m, BLOCK_N=32)
    assert spilled_bytes(kernel, tmp_path) == 0
    assert kernel.metadata.shared <= HOPPER_SHARED_BYTES


def test_standard_spills_no_register(tmp_path: Path) -> None:
    options = standard_options(128, 128, 128, 2, HOPPER_SHARED_BYTES)
    blocks = {"HEAD_DIM": 128, "BLOCK_M": 128, "BLOCK_N": 128}
    for kernel in (
        compile_kernel(standard_scores, "fp16", options, CAUSAL=True, **blocks),
        compile_kernel(standard_softmax, "fp16", softmax_options(16384), CHUNK=16384, ONE_READ=True),
        compile_kernel(standard_output, "fp16", options, **blocks),
    ):
        assert spilled_bytes(kernel, tmp_path) == 0
        assert kernel.metadata.shared <= HOPPER_SHARED_BYTES


def test_the_largest_head_fits_shared_memory() -> None:
    constants = {"CAUSAL": True, "HEAD_DIM": 256, "BLOCK_M": 64, "BLOCK_N": 64}
    kernel = compile_kernel(flash2_kernel, "bf16", flash2_options(64, 64, 256, 2, HOPPER_SHARED_BYTES), **constants)
    assert kernel.metadata.shared <= HOPPER_SHARED_BYTES


def test_matrices_are_addressed_with_64_bits() -> None:
    blocks = {"HEAD_DIM": 40, "BLOCK_M": 24, "BLOCK_N": 16}
    for kernel, constants in (
        (standard_scores, {"CAUSAL": True, **blocks}),
        (flash1_kernel, {"CAUSAL": True, **blocks}),
        (flash2_kernel, {"CAUSAL": True, **blocks}),
    ):
        text = ttir(source(kernel, "fp32", contiguous=False, **constants))
        offsets = re.findall(r"tt\.addptr .* : tensor<\d+x\d+x!tt\.ptr<\w+>>, tensor<\d+x\d+x(i\d+)>", text)
        bases = re.findall(r"tt\.addptr .* : !tt\.ptr<\w+>, (i\d+)", text)
        products = re.findall(r"arith\.muli .* : tensor<\S+x(i\d+)>", text)
        assert set(offsets) == set(products) == {"i64"}
        assert "i64" in bases


def test_stores_of_flash1_are_loaded_only_after_a_barrier() -> None:
    constants = {"CAUSAL": False, "HEAD_DIM": 64, "BLOCK_M": 64, "BLOCK_N": 64}
    kernel = compile_kernel(flash1_kernel, "fp16", flash1_options(64, 64, 64, 2, HOPPER_SHARED_BYTES), **constants)
    ttgir: str = kernel.asm["ttgir"]
    outer = ttgir.index("scf.for")
    inner = ttgir.index("scf.for", outer + 1)
    stores = [match.start() for match in re.finditer(r"tt\.store", ttgir)]
    barrier = re.search(r"(gpu\.barrier|ttg\.barrier|ttg\.local_barrier).*", ttgir[stores[-1] :])
    assert len(stores) == 3  # O, l, m
    assert all(start > inner for start in stores)
    assert barrier
    # O, l, m are plain loads in the inner loop, K and V before it; only Q, which is constant, is prefetched
    assert len(re.findall(r"tt\.load", ttgir[inner:])) == 3
    assert len(re.findall(r"tt\.load", ttgir[outer:inner])) == 2


@pytest.mark.parametrize(
    ("head_dim", "rows", "dtype"),
    [
        (64, 4, "fp16"),
        (128, 4, "bf16"),
        (128, 20, "fp16"),
        (256, 4, "fp16"),
        (256, 64, "bf16"),
        (64, 1, "fp32"),
        (256, 16, "fp32"),
    ],
)
def test_decode_spills_little_and_prefetches(tmp_path: Path, head_dim: int, rows: int, dtype: str) -> None:
    element_bytes = 4 if dtype == "fp32" else 2
    plan = plan_splits(8, rows, head_dim, element_bytes, processors=132, shared_bytes=HOPPER_SHARED_BYTES)
    constants = {"CAUSAL": False, "HEAD_DIM": head_dim, "WIDTH": plan.width, "ROWS": plan.rows, "BLOCK_N": plan.block_n}
    options = {"num_warps": plan.num_warps, "num_stages": plan.num_stages}
    kernel = compile_kernel(decode_kernel, dtype, options, float32=("O", "Lse"), ALIGNMENT=16, **constants)
    assert spilled_bytes(kernel, tmp_path) <= 16  # spilled once, outside the loop
    assert kernel.metadata.shared <= HOPPER_SHARED_BYTES
    assert "cp.async.cg.shared.global" in kernel.asm["ptx"]


def test_the_default_order_computes_no_direction() -> None:
    shape = {"CAUSAL": True, "HEAD_DIM": 64, "BLOCK_M": 64, "BLOCK_N": 64}
    plain, default, sawtooth = (
        ttir(source(flash2_kernel, "fp16", **shape, **group)) for group in ({"GROUP": 0}, {}, {"GROUP": 1})
    )
    assert plain == default
    assert "tt.get_num_programs x" not in plain
    assert "tt.get_num_programs x" in sawtooth
