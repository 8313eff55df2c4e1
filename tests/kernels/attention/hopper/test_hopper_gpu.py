"""`attention` on a GPU against float64.

The tests cover backends, layouts, shapes, gradients, races and CUDA graphs.
"""

from __future__ import annotations

import math

import pytest
import torch

from ioaware.kernels.attention.dispatch import BackendName, attention
from ioaware.kernels.attention.hopper.forward import hopper_forward
from ioaware.kernels.attention.references.inputs import DISTRIBUTIONS, Distribution, attention_inputs
from ioaware.targets.output_check import relative_error
from ioaware.tracing.poison import Poison
from tests.support.grouped_reference import grouped_reference

AVAILABLE = torch.cuda.is_available()
HOPPER = AVAILABLE and torch.cuda.get_device_capability()[0] == 9
TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3}
backends = pytest.mark.parametrize(
    "backend",
    [
        pytest.param("hopper", marks=pytest.mark.skipif(not HOPPER, reason="torch sees no GPU of compute capability 9.0")),
        "triton",
    ],
)
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not AVAILABLE, reason="torch sees no CUDA GPU")]


def random_tensor(*shape: int, dtype: torch.dtype, heads_last: bool = False) -> torch.Tensor:
    batch, heads, rows, head_dim = shape
    if heads_last:
        return torch.randn(batch, rows, heads, head_dim, device="cuda", dtype=dtype).transpose(1, 2)
    return torch.randn(shape, device="cuda", dtype=dtype)


@backends
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(
    ("batch", "heads", "kv_heads", "seq_len", "kv_len", "head_dim", "heads_last"),
    [
        (1, 1, 1, 128, 128, 64, False),
        (2, 4, 2, 256, 256, 128, True),
        (1, 2, 2, 200, 333, 40, False),
        (3, 5, 1, 1, 77, 256, False),
        (2, 2, 2, 640, 130, 72, True),  # causal: the first 510 rows see no key
        (1, 4, 4, 1024, 1024, 256, False),
        (2, 3, 3, 65, 1, 64, True),
        (4, 8, 2, 700, 900, 96, True),
        (40, 8, 2, 300, 450, 128, False),  # more tiles than processors
        (4, 48, 2, 700, 900, 64, False),  # four consumers of several tiles each
        (3, 50, 50, 1030, 1000, 56, True),
        (1, 40, 8, 5000, 5100, 64, True),  # three consumers
        (1, 40, 8, 4300, 900, 64, False),  # three consumers; causal: most rows see no key, and most barrier arrivals are unused
        (1, 20, 4, 3000, 2900, 128, False),  # longest first, several rounds
        (1, 24, 8, 2500, 2600, 200, True),
        (6, 20, 20, 500, 500, 136, False),
    ],
)
def test_agrees_with_float64(
    backend: BackendName, dtype: torch.dtype, causal: bool, batch: int, heads: int, kv_heads: int, seq_len: int, kv_len: int,
    head_dim: int, heads_last: bool,
) -> None:  # fmt: skip
    torch.manual_seed(0)
    q = random_tensor(batch, heads, seq_len, head_dim, dtype=dtype, heads_last=heads_last)
    k, v = (random_tensor(batch, kv_heads, kv_len, head_dim, dtype=dtype, heads_last=heads_last) for _ in range(2))
    with Poison():
        output = attention(q, k, v, causal, backend=backend)
    assert attention.backend == (backend, "requested")
    assert output.stride() == q.stride()
    assert relative_error(output, grouped_reference(q, k, v, causal)[0]) < TOLERANCE[dtype]


@backends
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_hard_inputs(backend: BackendName, distribution: Distribution) -> None:
    q, k, v = attention_inputs(2, 3, 320, 450, 128, dtype=torch.float16, device="cuda", distribution=distribution)
    assert relative_error(attention(q, k, v, backend=backend), grouped_reference(q, k, v, False)[0]) < 2e-3


@pytest.mark.skipif(not HOPPER, reason="torch sees no GPU of compute capability 9.0")
def test_log_sum_exp() -> None:
    q, k, v = attention_inputs(2, 3, 320, 250, 64, dtype=torch.float16, device="cuda")
    _, lse = hopper_forward(q, k, v, causal=True, scale=0.2)
    expected = grouped_reference(q, k, v, True, 0.2)[1]
    sees = expected.isfinite()
    assert (lse[sees] - expected[sees]).abs().max() < 1e-4
    assert torch.equal(lse[~sees], torch.full_like(lse[~sees], -math.inf))


@pytest.mark.skipif(not HOPPER, reason="torch sees no GPU of compute capability 9.0")
@pytest.mark.parametrize(("head_dim", "seq_len"), [(64, 640), (64, 1300), (64, 4200), (128, 900), (256, 500)])
def test_a_thousand_launches_give_equal_bits(head_dim: int, seq_len: int) -> None:
    for causal in (False, True):
        differences = torch.zeros((), dtype=torch.int64, device="cuda")
        for _ in range(1000):
            q, k, v = (random_tensor(3, 20, seq_len, head_dim, dtype=torch.float16) for _ in range(3))
            first, second = (attention(q, k, v, causal, backend="hopper") for _ in range(2))
            differences += (first.view(torch.int16) != second.view(torch.int16)).sum()
        assert differences.item() == 0


@backends
def test_a_cuda_graph_captures_it(backend: BackendName) -> None:
    """The captured launch is the second with these shapes, so it is a cached one."""
    q, k, v = attention_inputs(2, 3, 512, 512, 128, dtype=torch.float16, device="cuda")
    expected = attention(q, k, v, backend=backend)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = attention(q, k, v, backend=backend)
    output.fill_(math.nan)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(output, expected)
