"""Triton's tutorials as targets.

`FOREIGN_TRITON` names a checkout of Triton, of the installed version or an older one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library
from inputs import backward, normal, one_configuration

TRITON = Library("triton", "python/tutorials")
Work = Callable[[], object]
HALF = torch.float16


def _tutorial(file: str, *names: str) -> Any:
    return TRITON.definitions(f"{file}.py", *names)


def vector_add(n: int = 100_000, device: str = "cuda") -> Work:
    """Tutorial 11's addition, which is tutorial 1's launched the newer way."""
    add = _tutorial("11-programmatic-dependent-launch", "add").add
    x, y = (normal(n, device=device, dtype=torch.float32) for _ in range(2))
    return lambda: add(x, y, False)


def fused_softmax(rows: int = 500, cols: int = 781, device: str = "cuda") -> Work:
    """Tutorial 2: a persistent softmax, its grid from the occupancy."""
    softmax = _tutorial("02-fused-softmax", "softmax").softmax
    x = normal(rows, cols, device=device, dtype=torch.float32)
    return lambda: softmax(x)


def matmul(m: int = 512, n: int = 512, k: int = 512, device: str = "cuda") -> Work:
    """Tutorial 3: C = A B, programs in groups."""
    tutorial = _tutorial("03-matrix-multiplication", "matmul", "matmul_kernel")
    one_configuration(tutorial.matmul_kernel)
    a, b = normal(m, k, device=device, dtype=HALF), normal(k, n, device=device, dtype=HALF)
    return lambda: tutorial.matmul(a, b)


def matmul_in_groups(m: int = 512, n: int = 512, k: int = 512, group: int = 1, device: str = "cuda") -> Work:
    """Tutorial 3, its programs in groups of `group` row blocks."""
    tutorial = _tutorial("03-matrix-multiplication", "matmul", "matmul_kernel")
    first = one_configuration(tutorial.matmul_kernel).configs[0]
    first.kwargs["GROUP_SIZE_M"] = group
    a, b = normal(m, k, device=device, dtype=HALF), normal(k, n, device=device, dtype=HALF)
    return lambda: tutorial.matmul(a, b)


def dropout(n: int = 100_000, device: str = "cuda") -> Work:
    """Tutorial 4: dropout with a mask from memory."""
    function = _tutorial("04-low-memory-dropout", "dropout").dropout
    x = normal(n, device=device, dtype=torch.float32)
    keep = torch.ones(n, device=device, dtype=torch.int32)
    return lambda: function(x, x_keep=keep, p=0.5)


def seeded_dropout(n: int = 100_000, device: str = "cuda") -> Work:
    """Tutorial 4: dropout with a mask from a generator."""
    function = _tutorial("04-low-memory-dropout", "seeded_dropout").seeded_dropout
    x = normal(n, device=device, dtype=torch.float32)
    return lambda: function(x, p=0.5, seed=123)


def layer_norm(rows: int = 256, cols: int = 1000, device: str = "cuda") -> Work:
    """Tutorial 5: LayerNorm forward and backward, its locks spinning on atomics."""
    function = _tutorial("05-layer-norm", "LayerNorm").LayerNorm
    x = normal(rows, cols, device=device, dtype=HALF, grad=True)
    w, b = (normal(cols, device=device, dtype=HALF, grad=True) for _ in range(2))
    return lambda: backward(function.apply(x, (cols,), w, b, 1e-5), x, w, b)


def layer_norm_forward(rows: int = 256, cols: int = 1000, device: str = "cuda") -> Work:
    """Tutorial 5: LayerNorm forward."""
    function = _tutorial("05-layer-norm", "LayerNorm").LayerNorm
    x = normal(rows, cols, device=device, dtype=HALF)
    w, b = (normal(cols, device=device, dtype=HALF) for _ in range(2))
    return lambda: function.apply(x, (cols,), w, b, 1e-5)


def fused_attention(batch: int = 1, heads: int = 2, seq_len: int = 256, causal: bool = False, device: str = "cuda") -> Work:
    """Tutorial 6: attention forward and backward, heads of 64."""
    tutorial = _tutorial("06-fused-attention", "_attention", "_attn_fwd")
    one_configuration(tutorial._attn_fwd)
    q, k, v = (normal(batch, heads, seq_len, 64, device=device, dtype=HALF, grad=True) for _ in range(3))
    return lambda: backward(tutorial._attention.apply(q, k, v, causal, 0.125, False), q, k, v)


def grouped_gemm(groups: int = 3, size: int = 256, device: str = "cuda") -> Work:
    """Tutorial 8: matrices of a group, their addresses and sizes read from memory."""
    tutorial = _tutorial("08-grouped-gemm", "group_gemm_fn", "grouped_matmul_kernel")
    one_configuration(tutorial.grouped_matmul_kernel)
    a, b = ([normal(size, size, device=device, dtype=HALF) for _ in range(groups)] for _ in range(2))
    return lambda: tutorial.group_gemm_fn(a, b)


def grouped_gemm_tma(groups: int = 3, size: int = 256, device: str = "cuda") -> Work:
    """Tutorial 8 with descriptors made on the device."""
    tutorial = _tutorial("08-grouped-gemm", "group_gemm_tma_fn", "grouped_matmul_tma_kernel")
    one_configuration(tutorial.grouped_matmul_tma_kernel)
    a, b = ([normal(size, size, device=device, dtype=HALF) for _ in range(groups)] for _ in range(2))
    return lambda: tutorial.group_gemm_tma_fn(a, b)


def _matmul_of_9(kernel: str, host: str, size: tuple[int, int, int], device: str, *options: bool) -> Work:
    """One of tutorial 9's multiplications, C = A B with B stored as its transpose."""
    m, n, k = size
    tutorial = _tutorial("09-persistent-matmul", host, kernel)
    one_configuration(getattr(tutorial, kernel))
    a, b = normal(m, k, device=device, dtype=HALF), normal(n, k, device=device, dtype=HALF)

    def allocated(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        del alignment, stream
        return torch.empty(size, device=device, dtype=torch.int8)

    triton.set_allocator(allocated)
    return lambda: getattr(tutorial, host)(a, b if options else b.T, *options)


def matmul_naive(m: int = 512, n: int = 512, k: int = 256, device: str = "cuda") -> Work:
    """Tutorial 9, one tile a program."""
    return _matmul_of_9("matmul_kernel", "matmul", (m, n, k), device)


def matmul_tma(m: int = 512, n: int = 512, k: int = 256, device: str = "cuda") -> Work:
    """Tutorial 9, through descriptors."""
    return _matmul_of_9("matmul_kernel_tma", "matmul_tma", (m, n, k), device, False)


def matmul_persistent(m: int = 1024, n: int = 2048, k: int = 128, device: str = "cuda") -> Work:
    """Tutorial 9, a program per SM that walks the tiles."""
    return _matmul_of_9("matmul_kernel_persistent", "matmul_persistent", (m, n, k), device)


def matmul_tma_persistent(m: int = 1024, n: int = 2048, k: int = 128, device: str = "cuda") -> Work:
    """Tutorial 9, persistent and through descriptors."""
    return _matmul_of_9("matmul_kernel_tma_persistent", "matmul_tma_persistent", (m, n, k), device, False)


def matmul_descriptor_persistent(m: int = 1024, n: int = 2048, k: int = 128, device: str = "cuda") -> Work:
    """Tutorial 9, persistent, with descriptors made on the device."""
    return _matmul_of_9("matmul_kernel_descriptor_persistent", "matmul_descriptor_persistent", (m, n, k), device, False)


def block_scaled_matmul(m: int = 256, n: int = 256, k: int = 256, device: str = "cuda") -> Work:
    """Tutorial 10: fp8 operands with a scale for every 32 elements.

    Blackwell multiplies such operands.
    """
    tutorial = _tutorial("10-block-scaled-matmul", "block_scaled_matmul", "TensorDescriptor")
    describe = tutorial.TensorDescriptor.from_tensor
    matrices = [normal(size, k, device=device).to(torch.float8_e4m3fn) for size in (m, n)]
    a, b = (describe(one, [rows, 128]) for one, rows in zip(matrices, (128, 256), strict=True))
    scales = [torch.full((1, size // 128, k // 128, 2, 256), 127, device=device, dtype=torch.uint8) for size in (m, n)]
    a_scale, b_scale = (describe(one, [1, rep, 1, 2, 256]) for one, rep in zip(scales, (1, 2), strict=True))
    blocks = {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 128, "num_stages": 4}
    options = {**blocks, "ELEM_PER_BYTE_A": 1, "ELEM_PER_BYTE_B": 1, "VEC_SIZE": 32}
    return lambda: tutorial.block_scaled_matmul(a, a_scale, b, b_scale, HALF, m, n, k, 1, 2, 1, options)
