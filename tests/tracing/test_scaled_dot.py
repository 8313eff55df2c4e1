"""`tl.dot_scaled` in the interpreter equals a product of decoded matrices.

It has the product's FLOPs.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from ioaware.tracing.byte_counter import ByteCounter, count_accesses
from ioaware.tracing.interpreter import interpret_kernels

M, N, K = 16, 32, 64


@triton.jit
def scaled_kernel(
    a, b, a_scale, b_scale, out, M: tl.constexpr, N: tl.constexpr, KA: tl.constexpr, G: tl.constexpr, KIND: tl.constexpr
):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    depth, groups = tl.arange(0, KA), tl.arange(0, G)
    x = tl.load(a + rows[:, None] * KA + depth[None, :])
    y = tl.load(b + columns[None, :] * KA + depth[:, None])
    x_scale = tl.load(a_scale + rows[:, None] * G + groups[None, :])
    y_scale = tl.load(b_scale + columns[:, None] * G + groups[None, :])
    product = tl.dot_scaled(x, x_scale, KIND, y, y_scale, KIND)
    tl.store(out + rows[:, None] * N + columns[None, :], product)


def decode(bits: torch.Tensor, kind: str) -> np.ndarray:
    """Return elements as float64, decoded by definition: sign, exponent, mantissa."""
    if kind == "e2m1":
        values = bits.numpy().astype(np.int64)
        return np.stack([small(values & 15, 2, 1, 1), small(values >> 4, 2, 1, 1)], axis=-1).reshape(len(bits), -1)
    return small(bits.numpy().astype(np.int64), 4, 3, 7) if kind == "e4m3" else small(bits.numpy().astype(np.int64), 5, 2, 15)


def small(bits: np.ndarray, exponents: int, mantissas: int, bias: int) -> np.ndarray:
    sign, exponent = bits >> (exponents + mantissas), (bits >> mantissas) & (2**exponents - 1)
    fraction = (bits & (2**mantissas - 1)) / 2**mantissas
    size = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias))
    return np.where(sign == 1, -size, size)


@pytest.mark.parametrize("kind", ["e4m3", "e5m2", "e2m1"])
def test_a_product_with_scales(kind: str) -> None:
    draw = torch.Generator().manual_seed(0)
    packed = 2 if kind == "e2m1" else 1
    a, b = (
        torch.randint(0, 256 if packed == 2 else 0x70, (rows, K // packed), generator=draw).to(torch.uint8) for rows in (M, N)
    )
    scales = [torch.randint(120, 134, (rows, K // 32), generator=draw).to(torch.uint8) for rows in (M, N)]
    out, counter = torch.empty(M, N), ByteCounter()
    with interpret_kernels(), count_accesses(counter):
        scaled_kernel[(1,)](a, b, *scales, out, M=M, N=N, KA=K // packed, G=K // 32, KIND=kind)
    wide = [
        decode(bits, kind) * np.repeat(2.0 ** (s.numpy().astype(float) - 127), 32, axis=1)
        for bits, s in zip((a, b), scales, strict=True)
    ]
    np.testing.assert_allclose(out.numpy(), wide[0] @ wide[1].T, rtol=1e-4)
    assert counter.flops == 2 * M * N * K
