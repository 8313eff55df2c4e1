"""Gradients of `attention` on a GPU against float64.

The tests cover backends, layouts, shapes, races and graphs.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from ioaware.kernels.attention.dispatch import BackendName, attention
from ioaware.targets.output_check import relative_error
from ioaware.tracing.poison import Poison
from tests.support.parallel_compilation import Call, compile_in_parallel

AVAILABLE = torch.cuda.is_available()
HOPPER = AVAILABLE and torch.cuda.get_device_capability()[0] == 9
TOLERANCE = {torch.float16: 1.5e-3, torch.bfloat16: 1e-2}
on_hopper = pytest.mark.skipif(not HOPPER, reason="torch sees no GPU of compute capability 9.0")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not AVAILABLE, reason="torch sees no CUDA GPU"),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),  # from torch, at the first float64 matmul of a backward pass
]
Tensors = tuple[torch.Tensor, ...]
SHAPES = [
    (1, 1, 1, 128, 128, 64, False),
    (2, 4, 2, 256, 256, 128, True),
    (1, 2, 2, 200, 333, 40, False),
    (3, 5, 1, 1, 77, 256, False),
    (2, 2, 2, 640, 130, 72, True),  # causal: the first 510 rows see no key
    (1, 4, 4, 1024, 1024, 256, False),
    (2, 3, 3, 65, 1, 64, True),
    (2, 3, 3, 65, 1, 256, False),
    (4, 8, 2, 700, 900, 96, True),
    (4, 8, 2, 300, 450, 128, False),
    (9, 16, 4, 300, 450, 64, True),  # more tiles than processors
    (3, 20, 20, 500, 500, 136, False),
    (6, 30, 30, 512, 512, 128, False),  # causal: column blocks of most heads in pairs, of the last heads longest first
    (22, 6, 6, 512, 512, 128, True),  # causal: one program a head
    (33, 8, 4, 200, 333, 64, False),  # one program a key head
    (9, 16, 4, 1200, 450, 64, False),  # full: the last round's column blocks split by rows, of groups of heads
    (1, 16, 16, 1280, 1280, 128, True),  # ... with parts of two column blocks
]
OTHERS = [
    (2, 4, 4, 1024, 1024),
    (2, 3, 3, 300, 300),
    (3, 20, 20, 640, 640),
    (3, 20, 20, 700, 700),
    (3, 20, 20, 900, 900),
    (3, 20, 20, 500, 500),
]
"""Shapes of the other tests, compiled for head_dim 64, 128 and 256."""


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    shapes = [*SHAPES, *((*shape, head_dim, False) for shape in OTHERS for head_dim in (64, 128, 256))]
    compile_in_parallel(
        Call(backend, deterministic, dtype, causal, *shape)
        for backend, deterministic in ((("hopper", False), ("hopper", True)) if HOPPER else ()) + (("triton", True),)
        for dtype in TOLERANCE
        for causal in (False, True)
        for shape in (shapes if backend == "hopper" else SHAPES)
    )


def random_tensor(*shape: int, dtype: torch.dtype, heads_last: bool = False) -> torch.Tensor:
    batch, heads, rows, head_dim = shape
    if heads_last:
        return torch.randn(batch, rows, heads, head_dim, device="cuda", dtype=dtype).transpose(1, 2)
    return torch.randn(shape, device="cuda", dtype=dtype)


def reference_gradients(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, causal: bool) -> Tensors:
    """Return dQ, dK and dV in float64, with grouped heads."""
    leaves = [x.detach().double().requires_grad_() for x in (q, k, v)]
    group = q.shape[1] // k.shape[1]
    keys, values = (x.repeat_interleave(group, 1) for x in leaves[1:])
    s = leaves[0] @ keys.transpose(-1, -2) / math.sqrt(q.shape[3])
    seen = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device)
    if causal:
        seen = seen.tril(k.shape[2] - q.shape[2])
    output = (torch.softmax(s.masked_fill(~seen, -1e300), -1) * seen) @ values
    return torch.autograd.grad(output, leaves, do.double())


def gradients(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, causal: bool, backend: BackendName,
    deterministic: bool = False,
) -> Tensors:  # fmt: skip
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    output = attention(leaves[0], leaves[1], leaves[2], causal, backend=backend, deterministic=deterministic)
    assert attention.backward_backend is not None
    assert attention.backward_backend.name == backend
    return torch.autograd.grad(output, leaves, do)


def errors(found: Tensors, expected: Tensors) -> list[float]:
    """Return relative errors, or absolute ones where the gradient is zero.

    It is zero up to rounding.
    """
    small = 1e-3
    return [
        relative_error(one, other) if other.norm() > small * math.sqrt(other.numel()) else float((one - other).abs().max())
        for one, other in zip(found, expected, strict=True)
    ]


@pytest.mark.parametrize(
    ("backend", "deterministic"),
    [pytest.param("hopper", False, marks=on_hopper), pytest.param("hopper", True, marks=on_hopper), ("triton", True)],
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(
    ("batch", "heads", "kv_heads", "seq_len", "kv_len", "head_dim", "heads_last"),
    SHAPES,
)
def test_agrees_with_float64(
    backend: BackendName, deterministic: bool, dtype: torch.dtype, causal: bool, batch: int, heads: int, kv_heads: int,
    seq_len: int, kv_len: int, head_dim: int, heads_last: bool,
) -> None:  # fmt: skip
    torch.manual_seed(0)
    q, do = (random_tensor(batch, heads, seq_len, head_dim, dtype=dtype, heads_last=heads_last) for _ in range(2))
    k, v = (random_tensor(batch, kv_heads, kv_len, head_dim, dtype=dtype, heads_last=heads_last) for _ in range(2))
    with Poison():
        found = gradients(q, k, v, do, causal, backend, deterministic)
    assert [x.stride() for x in found] == [x.stride() for x in (q, k, v)]
    assert max(errors(found, reference_gradients(q, k, v, do, causal))) < TOLERANCE[dtype]
    if deterministic:
        again = gradients(q, k, v, do, causal, backend, deterministic)
        assert all(torch.equal(one, other) for one, other in zip(found, again, strict=True))


@on_hopper
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("size", [1.0, 8.0], ids=["normal", "large"])  # scores of some hundreds: one weight is nearly 1
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_at_most_twice_the_error_of_cudnn(head_dim: int, size: float, causal: bool, deterministic: bool) -> None:
    torch.manual_seed(0)
    q, k, v, do = (random_tensor(2, 4, 1024, head_dim, dtype=torch.bfloat16) for _ in range(4))
    q, k = q * size, k * size
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        cudnn = torch.autograd.grad(scaled_dot_product_attention(*leaves, is_causal=causal), leaves, do)
    expected = reference_gradients(q, k, v, do, causal)
    hopper_errors = errors(gradients(q, k, v, do, causal, "hopper", deterministic), expected)
    for one, other in zip(hopper_errors, errors(cudnn, expected), strict=True):
        assert one < 2 * other + 1e-6


@on_hopper
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_a_gradient_of_any_layout(head_dim: int) -> None:
    q, k, v = (random_tensor(2, 3, 300, head_dim, dtype=torch.float16) for _ in range(3))
    for do in (
        torch.ones((), device="cuda", dtype=torch.float16).expand(q.shape),  # the gradient of a sum
        random_tensor(2, 3, head_dim, 300, dtype=torch.float16).transpose(2, 3),
        torch.randn(q.numel() + 1, device="cuda", dtype=torch.float16)[1:].view(q.shape),
    ):
        assert (
            max(errors(gradients(q, k, v, do, True, "hopper"), reference_gradients(q, k, v, do, True)))
            < TOLERANCE[torch.float16]
        )


@on_hopper
@pytest.mark.parametrize(
    ("head_dim", "seq_len", "by_rows"), [(64, 640, False), (128, 700, False), (128, 900, True), (256, 500, False)]
)
def test_many_launches_without_a_race(head_dim: int, seq_len: int, by_rows: bool) -> None:
    for causal in (False, True):
        orders = 2e-3 if by_rows and not causal else 0  # several programs add to a column block in any order
        wrong = torch.zeros((), dtype=torch.int64, device="cuda")
        for _ in range(10):
            q, k, v, do = (random_tensor(3, 20, seq_len, head_dim, dtype=torch.float16) for _ in range(4))
            dq, dk, dv = gradients(q, k, v, do, causal, "hopper")
            for _ in range(20):
                dq_again, dk_again, dv_again = gradients(q, k, v, do, causal, "hopper")
                for one, again, order in ((dq, dq_again, 2e-3), (dk, dk_again, orders), (dv, dv_again, orders)):
                    wrong += ((one - again).abs() > order * one.abs().max()).sum()
        assert wrong.item() == 0


@on_hopper
@pytest.mark.parametrize("head_dim", [128, 256])
def test_a_cuda_graph_captures_it(head_dim: int) -> None:
    q, k, v, do = (random_tensor(2, 3, 512, head_dim, dtype=torch.float16) for _ in range(4))
    expected = gradients(q, k, v, do, True, "hopper", deterministic=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = gradients(q, k, v, do, True, "hopper", deterministic=True)
    for one in found:
        one.fill_(math.nan)
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
