"""Decode in the interpreter against float64.

The tests cover splits, groups, masks, layouts, gradients and plans.
"""

# torch's functions have partial types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import math

import pytest
import torch

from ioaware.errors import UsageError
from ioaware.kernels.attention import attention
from ioaware.kernels.attention.decode.forward import decode_forward
from ioaware.kernels.attention.decode.num_splits import SM_SPEED, SplitPlan, best_splits, plan_splits, row_alignment
from ioaware.kernels.attention.launching.launch import HOPPER_SHARED_BYTES
from ioaware.targets.output_check import relative_error
from ioaware.tracing.interpreter import interpret_kernels
from ioaware.tracing.poison import Poison
from tests.support.grouped_reference import grouped_inputs, grouped_reference

TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 2e-6}


@pytest.mark.parametrize(
    ("heads", "kv_heads", "seq_len", "kv_len", "head_dim", "causal", "splits", "dtype"),
    [
        (4, 2, 1, 300, 64, False, 2, torch.float16),  # 3 column blocks in 2 splits
        (8, 1, 5, 700, 40, True, 4, torch.bfloat16),  # 6 column blocks in 4 splits, 40 rows, head_dim padded
        (2, 2, 16, 9, 72, True, 5, torch.float32),  # fewer keys than queries and than splits: 7 rows see no key
        (2, 1, 7, 130, 96, True, 2, torch.float16),  # the last keys, masked, in a split of their own
        (2, 2, 1, 500, 256, True, None, torch.float16),
        (6, 1, 13, 200, 128, False, 3, torch.float32),  # 78 rows: five tiles
        (3, 3, 3, 1, 24, False, None, torch.bfloat16),
        (2, 2, 2, 129, 17, True, 2, torch.float16),  # no stride is a multiple of 8
    ],
)
def test_agrees_with_float64(
    heads: int, kv_heads: int, seq_len: int, kv_len: int, head_dim: int, causal: bool, splits: int | None, dtype: torch.dtype
) -> None:
    q, k, v = grouped_inputs(heads, kv_heads, seq_len, kv_len, head_dim, dtype)
    with interpret_kernels(), Poison():
        o, lse = decode_forward(q, k, v, causal=causal, scale=0.3, splits=splits)
    expected, expected_lse = grouped_reference(q, k, v, causal, 0.3)
    assert (o.shape, o.dtype, o.stride()) == (q.shape, q.dtype, q.stride())
    assert relative_error(o, expected) < TOLERANCE[dtype]
    sees = expected_lse.isfinite()
    assert (lse[sees] - expected_lse[sees]).abs().max() < 1e-4
    assert torch.equal(lse[~sees], torch.full_like(lse[~sees], -math.inf))
    assert torch.equal(o[~sees], torch.zeros_like(o[~sees]))


def test_logits_that_overflow_without_their_maximum() -> None:
    q, k, v = grouped_inputs(2, 2, 2, 400, 32, torch.float32, spread=60)
    with interpret_kernels(), Poison():
        o, lse = decode_forward(q, k, v, causal=True, scale=1.0, splits=4)
    expected, expected_lse = grouped_reference(q, k, v, True, 1.0)
    assert float(expected_lse.max()) > 400
    assert relative_error(o, expected) < 1e-5
    assert relative_error(lse, expected_lse) < 1e-6


def test_a_cache_that_grows() -> None:
    """Launches are cached while kv_len changes.

    Each length must be read in full, and not beyond.
    """
    q, k, v = grouped_inputs(2, 1, 1, 300, 16, torch.float32)
    for kv_len in (1, 2, 15, 16, 128, 129, 256, 299, 300, 17):
        with interpret_kernels(), Poison():
            o, _ = decode_forward(q, k[:, :, :kv_len], v[:, :, :kv_len], causal=True, scale=0.5)
        expected, _ = grouped_reference(q, k[:, :, :kv_len], v[:, :, :kv_len], True, 0.5)
        assert relative_error(o, expected) < 2e-6
    with interpret_kernels():
        attention(q, k[:, :, :1], v[:, :, :1])
        with pytest.raises(UsageError, match="an empty dimension"):  # not the cached decision for one key
            attention(q, k[:, :, :0], v[:, :, :0])


def test_gradients_flow_through_it() -> None:
    q, k, v = grouped_inputs(4, 2, 3, 150, 16, torch.float32)
    exact = [tensor.double().requires_grad_() for tensor in (q, k, v)]
    expected, _ = grouped_reference(exact[0], exact[1], exact[2], True, 0.25)
    expected.sum().backward()
    leaves = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
    with interpret_kernels(), Poison():
        attention(leaves[0], leaves[1], leaves[2], causal=True).sum().backward()
    assert attention.backend == ("decode", "3 queries a head: its programs split the keys")
    for leaf, other in zip(leaves, exact, strict=True):
        assert leaf.grad is not None
        assert other.grad is not None
        assert relative_error(leaf.grad, other.grad) < 1e-5


def test_the_choice_of_decode_has_a_reason() -> None:
    few, many = grouped_inputs(2, 2, 16, 20, 16, torch.float32), grouped_inputs(2, 2, 17, 20, 16, torch.float32)
    with interpret_kernels():
        attention(*few)
        assert attention.backend == ("decode", "16 queries a head: its programs split the keys")
        attention(*few, backend="decode")
        assert attention.backend == ("decode", "requested")
        attention(*few, backend="triton")
        assert attention.backend == ("triton", "requested")
        attention(*many)
        assert attention.backend is not None
        assert attention.backend.name == "triton"
        with pytest.raises(UsageError, match="up to 16 queries a head, not 17"):
            attention(*many, backend="decode")


def plan(key_heads: int, rows: int = 4, head_dim: int = 128, element_bytes: int = 2, shared: int = 0) -> SplitPlan:
    shared_bytes = shared or HOPPER_SHARED_BYTES
    return plan_splits(key_heads, rows, head_dim, element_bytes, processors=132, shared_bytes=shared_bytes)


@pytest.mark.parametrize("head_dim", [16, 40, 64, 128, 256])
@pytest.mark.parametrize("element_bytes", [2, 4])
@pytest.mark.parametrize("rows", [1, 20, 128])
@pytest.mark.parametrize("shared", [64 * 1024, 99 * 1024, HOPPER_SHARED_BYTES])
def test_tiles_fit(head_dim: int, element_bytes: int, rows: int, shared: int) -> None:
    it = plan(8, rows, head_dim, element_bytes, shared)
    assert it.tiles * it.rows >= rows
    assert it.width >= head_dim
    assert it.rows <= 64
    pair = 2 * it.block_n * it.width * element_bytes
    assert 2 * pair <= 2 / 3 * shared or it.block_n == 16


@pytest.mark.parametrize("key_heads", [1, 8, 45, 64, 70, 100, 128])
def test_an_h200_has_one_wave_that_reads_at_full_speed(key_heads: int) -> None:
    it = plan(key_heads)
    programs, places = key_heads * it.splits, 132 * 128 // it.block_n
    assert programs <= places
    assert programs >= 132 / SM_SPEED
    fullest = -(-programs // 132)
    assert 132 * fullest / programs <= SM_SPEED  # the fullest SM reads its share in the time of the wave


def test_the_number_of_splits_minimises_the_time() -> None:
    """Time and splits.

    Those measured on an H200 are in docs/lab-notes/portable-attention.md.
    """
    assert best_splits(8, 132, 1) == (1.0, 16)
    assert best_splits(64, 132, 1) == (1.0, 2)
    assert best_splits(100, 132, 1) == (1.0, 1)  # 32 SMs are idle, and the others suffice
    assert best_splits(70, 132, 1)[0] > 1.05  # 70 programs are too few for one wave, 280 too many
    assert (plan(70).block_n, plan(70).splits) == (64, 3)  # blocks of half the size, 210 programs in one wave
    assert plan(140).block_n == 128
    assert best_splits(2000, 132, 1)[1] == 1
    assert plan(1).splits_of(200) == 2  # no split without keys
    assert plan(1).splits_of(20000) == 132


def test_alignment() -> None:
    assert row_alignment(torch.empty(2, 3, 5, 64)) == 16
    assert row_alignment(torch.empty(2, 3, 5, 64), torch.empty(2, 3, 5, 40)) == 8
    assert row_alignment(torch.empty(2, 3, 5, 68)[..., :64]) == 1
