"""Define torch's own attention back ends as targets, checked against float64.

For example `ioaware measure ioaware.kernels.attention.pytorch.sdpa_targets:torch_flash`. They are no Triton kernels: `derive`
and `simulate` know nothing of them; `ioaware.simulation.accuracy_record.torch_attention` states a model of their requests.
"""

from __future__ import annotations

from typing import Any

import torch

from ioaware.case import Work
from ioaware.kernels.attention.references.inputs import attention_inputs
from ioaware.kernels.attention.references.reference import attention_reference
from ioaware.kernels.attention.references.work import TOLERANCES


def torch_flash(
    batch: int = 1, heads: int = 16, seq_len: int = 4096, head_dim: int = 128, causal: bool = False, device: str = "cuda"
) -> Work:
    """Return the work of torch's FlashAttention-2 on random fp16 inputs.

    Their shape is [batch, heads, seq_len, head_dim].
    """
    return _work("FLASH_ATTENTION", (batch, heads, seq_len, seq_len, head_dim), causal, device)


def torch_cudnn(
    batch: int = 1, heads: int = 16, seq_len: int = 4096, head_dim: int = 128, causal: bool = False, device: str = "cuda"
) -> Work:
    """Return the work of cuDNN's attention on random fp16 inputs.

    Their shape is [batch, heads, seq_len, head_dim].
    """
    return _work("CUDNN_ATTENTION", (batch, heads, seq_len, seq_len, head_dim), causal, device)


def torch_efficient(
    batch: int = 1, heads: int = 16, seq_len: int = 4096, head_dim: int = 128, causal: bool = False, device: str = "cuda"
) -> Work:
    """Return the work of torch's memory-efficient attention on fp16 inputs.

    Their shape is [batch, heads, seq_len, head_dim].
    """
    return _work("EFFICIENT_ATTENTION", (batch, heads, seq_len, seq_len, head_dim), causal, device)


def torch_math(
    batch: int = 1, heads: int = 16, seq_len: int = 4096, head_dim: int = 128, causal: bool = False, device: str = "cuda"
) -> Work:
    """Return the work of torch's unfused attention on random fp16 inputs.

    Their shape is [batch, heads, seq_len, head_dim].
    """
    return _work("MATH", (batch, heads, seq_len, seq_len, head_dim), causal, device)


def _work(backend: str, sizes: tuple[int, int, int, int, int], causal: bool, device: str) -> Work:
    """Return the work of torch's attention with one back end, no fallback."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    q, k, v = attention_inputs(*sizes, dtype=torch.float16, device=device)
    allow: Any = sdpa_kernel

    def run() -> torch.Tensor:
        with allow([getattr(SDPBackend, backend)]):
            return scaled_dot_product_attention(q, k, v, is_causal=causal)

    return Work(
        run,
        inputs=(q, k, v),
        reference=lambda: attention_reference(q, k, v, causal=causal),
        tolerance=TOLERANCES[q.dtype],
    )
