"""Decode on a GPU against float64: dtypes, groups, ragged caches, CUDA graphs.

The caches are stored by token.
"""

# torch's functions have partial types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import math

import pytest
import torch

from ioaware.kernels.attention import attention
from ioaware.kernels.attention.decode.forward import decode_forward
from ioaware.targets.output_check import relative_error
from ioaware.tracing.poison import Poison
from tests.support.grouped_reference import grouped_reference

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU")]
TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 2e-6}
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def random_inputs(
    batch: int, heads: int, kv_heads: int, seq_len: int, kv_len: int, head_dim: int, dtype: torch.dtype
) -> Tensors:
    """Return q [batch, heads, seq_len, head_dim], and k and v stored as in caches.

    Caches are [batch, kv_len, kv_heads, head_dim].
    """
    torch.manual_seed(0)
    q = torch.randn(batch, heads, seq_len, head_dim, device="cuda", dtype=dtype)
    k, v = (torch.randn(batch, kv_len, kv_heads, head_dim, device="cuda", dtype=dtype).transpose(1, 2) for _ in range(2))
    return q, k, v


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(
    ("batch", "heads", "kv_heads", "seq_len", "kv_len", "head_dim"),
    [
        (1, 32, 8, 1, 9001, 128),
        (2, 8, 2, 16, 4100, 64),  # 64 rows
        (1, 16, 1, 9, 5000, 96),  # 144 rows: three tiles
        (3, 5, 5, 3, 777, 40),
        (1, 4, 2, 2, 20000, 256),
        (2, 6, 3, 5, 3, 72),  # causal: the first two rows see no key
        (150, 2, 2, 1, 300, 128),
        (1, 2, 1, 7, 1111, 17),
    ],
)
def test_agrees_with_float64(
    dtype: torch.dtype, causal: bool, batch: int, heads: int, kv_heads: int, seq_len: int, kv_len: int, head_dim: int
) -> None:
    q, k, v = random_inputs(batch, heads, kv_heads, seq_len, kv_len, head_dim, dtype)
    with Poison():
        o, lse = decode_forward(q, k, v, causal=causal, scale=1 / math.sqrt(head_dim))
    expected, expected_lse = grouped_reference(q, k, v, causal)
    assert relative_error(o, expected) < TOLERANCE[dtype]
    sees = expected_lse.isfinite()
    assert (lse[sees] - expected_lse[sees]).abs().max() < 1e-4
    assert torch.equal(lse[~sees], torch.full_like(lse[~sees], -math.inf))


def test_attention_chooses_decode_and_a_graph_replays_equal_bits() -> None:
    q, k, v = random_inputs(2, 16, 4, 4, 30000, 128, torch.bfloat16)
    expected = attention(q, k, v, causal=True)
    assert attention.backend is not None
    assert attention.backend.name == "decode"
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = attention(q, k, v, causal=True)
    for _ in range(100):
        output.fill_(math.nan)
        graph.replay()
        assert torch.equal(output, expected)


def test_a_cache_that_grows() -> None:
    q, k, v = random_inputs(2, 8, 2, 1, 3000, 128, torch.bfloat16)
    for kv_len in (1, 2, 16, 127, 128, 129, 1000, 2047, 2048, 2999, 3000, 33):
        o = attention(q, k[:, :, :kv_len], v[:, :, :kv_len])
        expected, _ = grouped_reference(q, k[:, :, :kv_len], v[:, :, :kv_len], False)
        assert relative_error(o, expected) < 8e-3


@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # torch's, at the first float64 matmul of a backward pass
def test_gradients() -> None:
    leaves = [tensor.requires_grad_() for tensor in random_inputs(2, 8, 2, 5, 2000, 64, torch.bfloat16)]
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    output = attention(leaves[0], leaves[1], leaves[2], causal=True)
    gradient = torch.randn_like(output)
    output.backward(gradient)
    grouped_reference(exact[0], exact[1], exact[2], True)[0].backward(gradient.double())
    for leaf, other in zip(leaves, exact, strict=True):
        assert leaf.grad is not None
        assert other.grad is not None
        assert relative_error(leaf.grad, other.grad) < 2e-2
