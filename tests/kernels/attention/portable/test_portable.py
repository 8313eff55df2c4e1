"""The portable kernels interpreted against float64.

The tests cover pointers and TMA, any blocks, and both passes.
"""

# torch's functions have partial types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import math

import pytest
import torch

from ioaware.kernels.attention.launching.launch import HOPPER_SHARED_BYTES
from ioaware.kernels.attention.portable.backward import attention_backward
from ioaware.kernels.attention.portable.config import BackwardBlocks, Blocks, backward_blocks, forward_blocks, use_tma
from ioaware.kernels.attention.portable.forward import portable_forward
from ioaware.targets.output_check import relative_error
from ioaware.tracing.interpreter import interpret_kernels
from ioaware.tracing.poison import Poison
from tests.support.grouped_reference import grouped_inputs, grouped_reference

TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 2e-6}
TALL, WIDE = Blocks(64, 16, 4, 1, late_sums=True), Blocks(16, 64, 4, 1, by_rows=True)


SHAPES = [  # heads, kv_heads, seq_len, kv_len, head_dim, causal
    (4, 2, 70, 40, 40, True),  # the first 30 rows see no key
    (3, 1, 33, 90, 72, True),
    (2, 2, 1, 65, 96, False),
    (2, 1, 128, 128, 16, True),
    (2, 2, 64, 64, 64, False),  # not ragged
    (1, 1, 20, 3, 24, False),
]


@pytest.mark.parametrize(("tma", "blocks"), [(False, WIDE), (True, TALL)], ids=["pointers-wide", "tma-tall"])
@pytest.mark.parametrize(("heads", "kv_heads", "seq_len", "kv_len", "head_dim", "causal"), SHAPES)
def test_forward(
    tma: bool, blocks: Blocks, heads: int, kv_heads: int, seq_len: int, kv_len: int, head_dim: int, causal: bool
) -> None:
    q, k, v = grouped_inputs(heads, kv_heads, seq_len, kv_len, head_dim)
    with interpret_kernels(), Poison():
        o, lse = portable_forward(q, k, v, causal=causal, scale=0.3, tma=tma, blocks=blocks)
    expected, expected_lse = grouped_reference(q, k, v, causal, 0.3)
    assert o.stride() == q.stride()
    assert relative_error(o, expected) < 1e-6
    sees = expected_lse.isfinite()
    assert (lse[sees] - expected_lse[sees]).abs().max() < 1e-5
    assert torch.equal(lse[~sees], torch.full_like(lse[~sees], -math.inf))
    assert torch.equal(o[~sees], torch.zeros_like(o[~sees]))


@pytest.mark.parametrize(("tma", "separate"), [(False, False), (True, True)], ids=["pointers-together", "tma-apart"])
@pytest.mark.parametrize(("heads", "kv_heads", "seq_len", "kv_len", "head_dim", "causal"), SHAPES)
def test_backward(
    tma: bool, separate: bool, heads: int, kv_heads: int, seq_len: int, kv_len: int, head_dim: int, causal: bool
) -> None:
    inputs = grouped_inputs(heads, kv_heads, seq_len, kv_len, head_dim)
    exact = [tensor.double().requires_grad_() for tensor in inputs]
    o, lse = grouped_reference(exact[0], exact[1], exact[2], causal, 0.3)
    do = torch.randn(o.shape, generator=torch.Generator().manual_seed(1))
    o.backward(do.double())
    blocks = BackwardBlocks(WIDE, TALL, dk=WIDE) if separate else BackwardBlocks(TALL, WIDE)
    with interpret_kernels(), Poison():
        found = attention_backward(
            *inputs, o.detach().float(), lse.detach().float(), do, causal=causal, scale=0.3, tma=tma, blocks=blocks
        )
    for gradient, tensor, other in zip(found, inputs, exact, strict=True):
        assert other.grad is not None
        assert gradient.stride() == tensor.stride()
        assert relative_error(gradient, other.grad) < 2e-6


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("scale", [-0.4, 0.0])
def test_any_scale(dtype: torch.dtype, scale: float) -> None:
    q, k, v = grouped_inputs(2, 2, 40, 50, 16, dtype)
    with interpret_kernels(), Poison():
        o, lse = portable_forward(q, k, v, causal=True, scale=scale)
    expected, expected_lse = grouped_reference(q, k, v, True, scale)
    assert relative_error(o, expected) < TOLERANCE[dtype]
    assert relative_error(lse, expected_lse) < 1e-5


def test_gradients_of_logits_that_overflow() -> None:
    q, k, v = grouped_inputs(1, 1, 30, 41, 16)
    q, k = q * 12, k * 12  # logits of hundreds; a key beyond the last has S = 0, so exp(S - L) overflows float32
    exact = [tensor.double().requires_grad_() for tensor in (q, k, v)]
    expected, lse = grouped_reference(exact[0], exact[1], exact[2], False, 1.0)
    expected.backward(torch.ones_like(expected))
    assert float(lse.detach().min()) > 100
    with interpret_kernels(), Poison():
        o, found_lse = portable_forward(q, k, v, causal=False, scale=1.0)
        found = attention_backward(q, k, v, o, found_lse, torch.ones_like(o), causal=False, scale=1.0)
        lowest = attention_backward(-q, k, v, *portable_forward(-q, k, v, causal=False, scale=1.0), o, causal=False, scale=1.0)
    assert relative_error(found[2], exact[2].grad if exact[2].grad is not None else v) < 1e-4
    assert all(bool(gradient.isfinite().all()) for gradient in (*found, *lowest))


@pytest.mark.parametrize("head_dim", [16, 40, 64, 96, 128, 136, 256])
@pytest.mark.parametrize("seq_len", [1, 512, 2048, 16384])
@pytest.mark.parametrize("causal", [False, True])
def test_blocks_are_tiles(head_dim: int, seq_len: int, causal: bool) -> None:
    plans: list[Blocks] = []
    for tma in (False, True):
        plans.append(forward_blocks(head_dim, 2, seq_len, causal=causal, tma=tma, shared_bytes=HOPPER_SHARED_BYTES))
        backward = backward_blocks(head_dim, 2, seq_len, tma=tma)
        plans += [backward.dq, backward.dkdv, *([backward.dk] if backward.dk else [])]
    for plan in plans:
        for size in (plan.block_m, plan.block_n, plan.num_warps):
            assert size & (size - 1) == 0
        assert min(plan.block_m, plan.block_n) >= 16


def test_tma_is_not_used_on_the_cpu() -> None:
    assert not use_tma(*grouped_inputs(2, 2, 32, 32, 64, torch.float16))
