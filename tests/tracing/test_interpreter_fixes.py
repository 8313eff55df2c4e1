"""Fixes of Triton's interpreter.

They are of bfloat16 bit by bit, loop indices, descriptors and masks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from ioaware.tracing.byte_counter import ByteCounter, count_accesses
from ioaware.tracing.interpreter import interpret_kernels
from ioaware.tracing.interpreter_fixes import narrow, widen


def bits_of(values: torch.Tensor) -> np.ndarray:
    return values.to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)


def test_narrowing_rounds_as_torch_does() -> None:
    patterns = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint32)
    edges = np.array(
        [0, 0x80000000, 0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 1, 0x00008000], dtype=np.uint32
    )
    values = np.concatenate([patterns, edges]).view(np.float32)
    finite = values[~np.isnan(values)]
    np.testing.assert_array_equal(narrow(finite), bits_of(torch.from_numpy(finite)))


def test_a_nan_stays_a_nan() -> None:
    assert np.isnan(widen(narrow(np.array([np.nan, -np.nan], dtype=np.float32)))).all()


def test_widening_is_exact() -> None:
    every = np.arange(2**16, dtype=np.uint16)
    widened = widen(every)
    np.testing.assert_array_equal(narrow(widened)[~np.isnan(widened)], every[~np.isnan(widened)])


@triton.jit
def arithmetic_kernel(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes)
    tl.store(out_ptr + lanes, tl.where(x > y, x + y, x * y))
    tl.store(out_ptr + BLOCK + lanes, -x)
    tl.store(out_ptr + 2 * BLOCK + lanes, (x.to(tl.float32) * 3.0).to(tl.bfloat16))
    tl.store(out_ptr + 3 * BLOCK + lanes, tl.maximum(x, y))


def test_arithmetic_on_bfloat16_is_that_of_torch() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(64).bfloat16(), torch.randn(64).bfloat16()
    out = torch.empty(4, 64, dtype=torch.bfloat16)
    with interpret_kernels():
        arithmetic_kernel[(1,)](x, y, out, BLOCK=64)
    expected = torch.stack([torch.where(x > y, x + y, x * y), -x, (x.float() * 3.0).bfloat16(), torch.maximum(x, y)])
    assert torch.equal(out, expected)


@triton.jit
def dot_kernel(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr, kind: tl.constexpr):
    at = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    tl.store(out_ptr + at, tl.dot(tl.load(x_ptr + at), tl.load(y_ptr + at), out_dtype=kind))


@pytest.mark.parametrize(("kind", "multiplied"), [(tl.float32, np.float32), (tl.float16, np.float16)])
def test_float16_is_multiplied_in_the_type_in_which_it_adds_up(
    monkeypatch: pytest.MonkeyPatch, kind: tl.dtype, multiplied: type[np.floating[Any]]
) -> None:
    """NumPy multiplies float16 fifty times more slowly than float32."""
    plain, seen = np.matmul, list[Any]()

    def matmul(lhs: Any, rhs: Any, **options: Any) -> Any:
        seen.extend((lhs.dtype, rhs.dtype))
        return plain(lhs, rhs, **options)

    monkeypatch.setattr(np, "matmul", matmul)
    torch.manual_seed(0)
    x, y = torch.randn(32, 32).half(), torch.randn(32, 32).half()
    out = torch.empty(32, 32)
    with interpret_kernels():
        dot_kernel[(1,)](x, y, out, BLOCK=32, kind=kind)
    assert seen == [multiplied, multiplied]
    tolerance = 1e-6 if kind == tl.float32 else 1e-2
    torch.testing.assert_close(out, (x.double() @ y.double()).float(), rtol=tolerance, atol=4 * tolerance)


@triton.jit
def descriptor_kernel(out_ptr, x_ptr, TILE: tl.constexpr):
    lanes = tl.arange(0, TILE)
    desc = tl.make_tensor_descriptor(out_ptr, shape=[3 * TILE // 2], strides=[1], block_shape=[TILE])
    values = tl.load(x_ptr + lanes)
    desc.atomic_add([0], values)
    desc.atomic_max([TILE], values)


def test_reductions_through_a_descriptor_stay_inside_it() -> None:
    out = torch.zeros(32, dtype=torch.int32)
    values = torch.arange(-4, 12, dtype=torch.int32)
    with interpret_kernels():
        descriptor_kernel[(1,)](out, values, TILE=16)
        descriptor_kernel[(1,)](out, values, TILE=16)
    assert torch.equal(out[:16], 2 * values)
    assert torch.equal(out[16:24], values[:8].clamp(min=0))
    assert not out[24:].any()


@triton.jit
def float_argument_kernel(x_ptr, out_ptr, eps, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    tl.store(out_ptr + lanes, x + eps)  # float16 and float32: computed in float32
    tl.store(out_ptr + BLOCK + lanes, x.to(tl.float32) + eps.to(tl.float16).to(tl.float32))


def test_a_float_argument_is_a_float32_as_compiled() -> None:
    torch.manual_seed(0)
    x, out = torch.randn(32).half(), torch.empty(2, 32)
    with interpret_kernels():
        float_argument_kernel[(1,)](x, out, 1e-4, BLOCK=32)
    eps = torch.tensor(1e-4)
    assert torch.equal(out, torch.stack([x.float() + eps, x.float() + eps.half().float()]))


@triton.jit
def index_kernel(x_ptr, out_ptr, n, STEPS: tl.constexpr):
    lanes = tl.arange(0, 16)
    for i in range(1, tl.cdiv(n, 16)):
        at = (i * 16 - 16).to(tl.int64) + lanes
        inside = (lanes < 16) & ((i * 16 - 16) < n)
        tl.store(out_ptr + at, tl.load(x_ptr + at, inside) + (-i).to(tl.float32), inside)
    for i in tl.static_range(STEPS):
        tl.store(out_ptr + 64 + i, i)


def test_a_loop_index_can_be_converted() -> None:
    x, out = torch.zeros(64), torch.zeros(80)
    with interpret_kernels():
        index_kernel[(1,)](x, out, 64, STEPS=3)
    assert torch.equal(out[:48], -torch.arange(1, 4).repeat_interleave(16).float())
    assert torch.equal(out[64:68], torch.tensor([0.0, 1.0, 2.0, 0.0]))


def test_a_mask_of_integers_masks() -> None:
    """numpy takes an array of zeros and ones for indices.

    All lanes would then lie in one sector.
    """
    counter, x, out = ByteCounter(), torch.zeros(64), torch.zeros(80)
    with interpret_kernels(), count_accesses(counter):
        index_kernel[(1,)](x, out, 64, STEPS=0)
    assert (counter.read_bytes, counter.read_sectors) == (3 * 64, 3 * 64 // 32)


@triton.jit
def early_kernel(out_ptr):
    gdc_launch_dependents()
    gdc_wait()
    tl.store(out_ptr, 3.0)


def test_early_launch_instructions_do_nothing() -> None:
    out = torch.zeros(1)
    with interpret_kernels():
        early_kernel[(1,)](out)
    assert out.item() == 3.0
