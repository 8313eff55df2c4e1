"""The Hopper forward kernel has at most twice the float64 error of cuDNN's.

The latter is cuDNN's attention.

Sizes: those of the benchmark, and ragged, strided, grouped, one row, large logits, head_dim 40, 72 and 96.
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from ioaware.kernels.attention import attention
from ioaware.kernels.attention.references.inputs import attention_inputs
from ioaware.kernels.attention.references.reference import attention_reference
from ioaware.targets.output_check import relative_error
from ioaware.tracing.poison import Poison

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
TOKENS = 16384
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not HOPPER, reason="torch sees no GPU of compute capability 9.0"),
    pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"]),
    pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"]),
]


def cudnn_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Return the output of SDPA's cuDNN back end.

    Skip the test where it refuses the inputs.
    """
    try:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])
    except RuntimeError as error:
        pytest.skip(f"no reference to compare with: cuDNN refuses these inputs ({str(error).splitlines()[0]})")


def check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, heads: slice = slice(None)) -> None:
    """Compare the given heads of the last batch.

    The second launch, which uses the cached launcher, must give the same output as the first.
    """
    with Poison():
        output, again = (attention(q, k, v, causal, backend="hopper") for _ in range(2))
    assert torch.equal(output, again)
    group = q.shape[1] // k.shape[1]
    last_q, last_k, last_v = q[-1:], k[-1:].repeat_interleave(group, 1), v[-1:].repeat_interleave(group, 1)
    exact = attention_reference(last_q[:, heads], last_k[:, heads], last_v[:, heads], causal=causal)
    cudnn_output = cudnn_attention(q, k, v, causal)
    assert relative_error(output[-1:, heads], exact) <= 2 * relative_error(cudnn_output[-1:, heads], exact)


@pytest.mark.parametrize("seq_len", [512, 1024, 2048, 4096, 8192, 16384])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_benchmark_sizes(head_dim: int, seq_len: int, dtype: torch.dtype, causal: bool) -> None:
    q, k, v = attention_inputs(
        TOKENS // seq_len, 2048 // head_dim, seq_len, seq_len, head_dim, dtype=dtype, device="cuda", seed=seq_len + head_dim
    )
    check(q, k, v, causal, heads=slice(3, 5) if seq_len > 4096 else slice(None))


@pytest.mark.parametrize(
    ("batch", "heads", "kv_heads", "seq_len", "kv_len", "head_dim"),
    [
        (2, 3, 3, 1000, 1000, 64),
        (1, 2, 2, 333, 200, 128),
        (2, 2, 2, 77, 1025, 256),
        (3, 8, 2, 700, 700, 96),
        (2, 4, 1, 450, 450, 40),
        (2, 4, 4, 257, 257, 72),
        (4, 3, 3, 1, 500, 128),
        (4, 3, 3, 1, 1, 64),
    ],
)
@pytest.mark.parametrize("heads_last", [False, True], ids=["bhsd", "bshd"])
def test_hard_shapes(
    batch: int, heads: int, kv_heads: int, seq_len: int, kv_len: int, head_dim: int, heads_last: bool, dtype: torch.dtype,
    causal: bool,
) -> None:  # fmt: skip
    if causal and seq_len != kv_len:
        pytest.skip("SDPA aligns a causal mask with the first key, attention with the last")
    q, k, v = attention_inputs(batch, heads, seq_len, kv_len, head_dim, dtype=dtype, device="cuda")
    k, v = k[:, :kv_heads], v[:, :kv_heads]
    if heads_last:
        q, k, v = (tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in (q, k, v))
    check(q, k, v, causal)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_large_logits(head_dim: int, dtype: torch.dtype, causal: bool) -> None:
    q, k, v = attention_inputs(2, 3, 600, 600, head_dim, dtype=dtype, device="cuda", distribution="large-logit")
    check(q, k, v, causal)


@pytest.mark.parametrize("reach", [20, 60, 400])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_maxima_that_grow_along_the_keys(head_dim: int, reach: int, dtype: torch.dtype, causal: bool) -> None:
    """Scores grow from the last key, where the kernel begins, to the first.

    The growth of a block of exponentials is below 2^15, or far above it.
    """
    q, k, v = attention_inputs(2, 3, 1000, 1000, head_dim, dtype=torch.float32, device="cuda")
    along = functional.normalize(torch.randn(head_dim, device="cuda", generator=torch.Generator("cuda").manual_seed(1)), dim=0)
    k = k + along * torch.linspace(reach, -reach, 1000, device="cuda")[:, None]
    q = q + 0.75 * head_dim**0.5 * along
    check(q.to(dtype), k.to(dtype), v.to(dtype), causal)
