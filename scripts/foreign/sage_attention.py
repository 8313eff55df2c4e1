"""SageAttention's Triton kernels as targets.

`FOREIGN_SAGE_ATTENTION` names the checkout.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library
from inputs import normal

SAGE_ATTENTION = Library("sage_attention")
Work = Callable[[], object]
BLOCK_M, BLOCK_N = 128, 64
"""Rows of queries and of keys that have a scale."""


def _function(file: str, name: str) -> Any:
    return getattr(SAGE_ATTENTION.definitions(f"sageattention/triton/{file}.py", name), name)


def quant_per_block(heads: int = 4, seq_len: int = 300, head_dim: int = 64, device: str = "cuda") -> Work:
    """Queries and keys as bytes, with a scale for each block of rows."""
    function = _function("quant_per_block", "per_block_int8")
    q, k = (normal(1, heads, seq_len, head_dim, device=device) for _ in range(2))
    return lambda: function(q, k)


def quant_per_thread(heads: int = 4, seq_len: int = 300, head_dim: int = 64, device: str = "cuda") -> Work:
    """Queries and keys as bytes, with a scale for the rows of each thread of a matmul."""
    function = _function("quant_per_thread", "per_thread_int8")
    q, k = (normal(1, heads, seq_len, head_dim, device=device) for _ in range(2))
    return lambda: function(q, k)


def attention(heads: int = 4, kv_heads: int = 2, seq_len: int = 512, head_dim: int = 64, device: str = "cuda") -> Work:
    """Attention with products of bytes."""
    return _attention("attn_qk_int8_per_block", heads, kv_heads, seq_len, head_dim, device)


def causal_attention(heads: int = 4, kv_heads: int = 2, seq_len: int = 512, head_dim: int = 64, device: str = "cuda") -> Work:
    """The same with a causal mask.

    `seq_len` is a multiple of 128: at others it reads scales beyond their end.
    """
    return _attention("attn_qk_int8_per_block_causal", heads, kv_heads, seq_len, head_dim, device)


def _attention(file: str, heads: int, kv_heads: int, seq_len: int, head_dim: int, device: str) -> Work:
    function = _function(file, "forward")
    rows = ((heads, BLOCK_M), (kv_heads, BLOCK_N))
    q, k = (torch.randint(-127, 128, (1, many, seq_len, head_dim), device=device, dtype=torch.int8) for many, _ in rows)
    v = normal(1, kv_heads, seq_len, head_dim, device=device, dtype=torch.float16)
    q_scale, k_scale = (torch.rand(1, many, -(-seq_len // block), device=device) / head_dim for many, block in rows)
    return lambda: function(q, k, v, q_scale, k_scale)
