"""The paper kernels against float64.

The tests cover dtypes, masks, ragged shapes, layouts and hard inputs.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ioaware.kernels.attention.flash2 import flash2
from ioaware.kernels.attention.launching.on_chip_limits import ROW_ON_CHIP
from ioaware.kernels.attention.references.inputs import DISTRIBUTIONS, Distribution, attention_inputs
from ioaware.kernels.attention.references.reference import attention_reference
from ioaware.kernels.attention.references.work import tolerance
from ioaware.targets.output_check import relative_error
from ioaware.tracing.interpreter import interpret_kernels
from ioaware.tracing.poison import Poison

Attention = Callable[..., torch.Tensor]

SHAPES = (  # seq_len, kv_len, head_dim, block_m, block_n
    (33, 33, 16, 16, 16),  # ragged in both
    (20, 50, 40, 16, 32),  # more keys than queries, head_dim padded
    (50, 20, 72, 32, 16),  # causal: the first 30 rows see no key
    (1, 7, 96, 64, 64),  # one row, everything smaller than a block
    (17, 32, 128, 16, 16),
    (16, 18, 256, 64, 64),
    (26, 31, 33, 12, 20),  # blocks and head_dim that no tile has
)
dtypes = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
masks = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])


def check(name: str, output: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> None:
    reference = attention_reference(q, k, v, causal=causal)
    assert output.shape == q.shape
    assert output.dtype == q.dtype
    assert relative_error(output, reference) <= tolerance(name, q.dtype)


@dtypes
@masks
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_agrees_with_float64(
    attention: Attention, kernel_name: str, dtype: torch.dtype, causal: bool, shape: tuple[int, ...]
) -> None:
    seq_len, kv_len, head_dim, block_m, block_n = shape
    q, k, v = attention_inputs(1, 1, seq_len, kv_len, head_dim, dtype=dtype)
    check(kernel_name, attention(q, k, v, causal=causal, block_m=block_m, block_n=block_n), q, k, v, causal)


@dtypes
@pytest.mark.parametrize("distribution", [kind for kind in DISTRIBUTIONS if kind != "random"])
def test_agrees_on_hard_inputs(attention: Attention, kernel_name: str, dtype: torch.dtype, distribution: Distribution) -> None:
    q, k, v = attention_inputs(1, 1, 24, 40, 16, dtype=dtype, distribution=distribution)
    causal = distribution == "masked"  # both masks at once
    check(kernel_name, attention(q, k, v, causal=causal, block_m=16, block_n=16), q, k, v, causal)


def test_heads_and_batch_are_kept_apart(attention: Attention, kernel_name: str) -> None:
    q, k, v = attention_inputs(2, 3, 17, 19, 16, dtype=torch.float16)
    check(kernel_name, attention(q, k, v, causal=True, block_m=16, block_n=16), q, k, v, True)


def token_major(x: torch.Tensor) -> torch.Tensor:
    """Return the same values stored as [batch, seq_len, heads, head_dim]."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def column_major(x: torch.Tensor) -> torch.Tensor:
    """Return the same values stored as [batch, heads, head_dim, seq_len]."""
    return x.transpose(2, 3).contiguous().transpose(2, 3)


def strided(x: torch.Tensor) -> torch.Tensor:
    """Return the same values with a NaN after each of them in memory."""
    wide = torch.full((*x.shape, 2), float("nan"), dtype=x.dtype)
    wide[..., 0] = x
    return wide[..., 0]


def broadcast(x: torch.Tensor) -> torch.Tensor:
    """Return the values of one head for all heads, with stride 0."""
    return x[:, :1].expand_as(x)


@pytest.mark.parametrize("layout", [token_major, column_major, strided, broadcast])
def test_reads_any_layout(attention: Attention, kernel_name: str, layout: Callable[[torch.Tensor], torch.Tensor]) -> None:
    q, k, v = (layout(x) for x in attention_inputs(2, 2, 17, 20, 24, dtype=torch.float16))
    check(kernel_name, attention(q, k, v, causal=True, block_m=16, block_n=16), q, k, v, True)


def test_a_row_that_sees_no_key_is_zero(attention: Attention) -> None:
    q, k, v = attention_inputs(1, 1, 40, 8, 16, dtype=torch.float16)
    output = attention(q, k, v, causal=True, block_m=16, block_n=16)
    assert torch.equal(output[:, :, :32], torch.zeros(1, 1, 32, 16, dtype=torch.float16))
    assert bool((output[:, :, 32:] != 0).any(dim=-1).all())


def test_a_given_scale(attention: Attention, kernel_name: str) -> None:
    q, k, v = attention_inputs(1, 1, 16, 16, 16, dtype=torch.float32)
    output = attention(q, k, v, scale=-0.7, block_m=16, block_n=16)
    assert relative_error(output, attention_reference(q, k, v, scale=-0.7)) <= tolerance(kernel_name, q.dtype)


@pytest.mark.parametrize("kv_len", [ROW_ON_CHIP, ROW_ON_CHIP + 9])
def test_rows_longer_than_the_chip_holds(attention: Attention, kernel_name: str, kv_len: int) -> None:
    q, k, v = attention_inputs(1, 1, 3, kv_len, 16, dtype=torch.float32)
    check(kernel_name, attention(q, k, v, causal=True, block_m=16, block_n=1024), q, k, v, True)


@masks
def test_log_sum_exp_of_flash2(causal: bool) -> None:
    q, k, v = attention_inputs(1, 2, 40, 24, 16, dtype=torch.float32)
    with interpret_kernels(), Poison():
        _, lse = flash2(q, k, v, causal=causal, block_m=16, block_n=16)
    s = q.double() @ k.double().mT / 4
    if causal:
        s.masked_fill_(torch.ones(40, 24, dtype=torch.bool).triu(24 - 40 + 1), float("-inf"))
    expected = s.logsumexp(dim=-1)
    assert lse.dtype == torch.float32
    assert torch.equal(lse == float("-inf"), expected == float("-inf"))
    seen = expected > float("-inf")
    assert relative_error(lse[seen], expected[seen]) <= 1e-6
