"""LMDeploy's kernels of serving as targets. `FOREIGN_LMDEPLOY` names the checkout."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library
from inputs import normal

LMDEPLOY = Library("lmdeploy")
Work = Callable[[], object]
HALF = torch.float16


def _function(file: str, name: str) -> Any:
    return getattr(LMDEPLOY.definitions(f"lmdeploy/pytorch/kernels/cuda/{file}.py", name), name)


def rms_norm(rows: int = 40, cols: int = 1024, device: str = "cuda") -> Work:
    """RMSNorm."""
    function, x, w = _function("rms_norm", "rms_norm"), normal(rows, cols, device=device), normal(cols, device=device)
    return lambda: function(x, w)


def add_rms_norm(rows: int = 40, cols: int = 1024, device: str = "cuda") -> Work:
    """Residual addition and RMSNorm."""
    function, w = _function("rms_norm", "rms_norm"), normal(cols, device=device)
    x, r = (normal(rows, cols, device=device) for _ in range(2))
    return lambda: function(x, w, residual=r)


def silu_and_mul(rows: int = 40, cols: int = 512, device: str = "cuda") -> Work:
    """silu(x) * y of two halves."""
    function, x = _function("activation", "silu_and_mul"), normal(rows, 2 * cols, device=device)
    return lambda: function(x)


def rotary(tokens: int = 40, heads: int = 8, device: str = "cuda") -> Work:
    """Rotary embedding of queries and keys."""
    function = _function("apply_rotary_pos_emb", "apply_rotary_pos_emb")
    q, k = normal(tokens, heads, 64, device=device), normal(tokens, 2, 64, device=device)
    cos, sin = (normal(tokens, 64, device=device) for _ in range(2))
    return lambda: function(q, k, cos, sin)


def per_token_int8(rows: int = 40, cols: int = 1024, device: str = "cuda") -> Work:
    """Quantisation of each row to 8 bits."""
    function, x = _function("w8a8_triton_kernels", "per_token_quant_int8"), normal(rows, cols, device=device, dtype=HALF)
    return lambda: function(x, 1e-7)


def rms_norm_int8(rows: int = 40, cols: int = 1024, device: str = "cuda") -> Work:
    """RMSNorm and quantisation to 8 bits."""
    function = _function("w8a8_triton_kernels", "rms_norm_dynamic_quant")
    x, w = normal(rows, cols, device=device, dtype=HALF), normal(cols, device=device, dtype=HALF)
    return lambda: function(x, w, 1e-6)


def int8_matmul(m: int = 64, n: int = 256, k: int = 128, device: str = "cuda") -> Work:
    """Product of matrices of 8 bits, scaled by row and column."""
    function = _function("w8a8_triton_kernels", "matmul_kernel_dynamic_quant")
    a, b = (torch.ones(rows, k, device=device, dtype=torch.int8) for rows in (m, n))
    rows, cols = normal(m, 1, device=device, dtype=torch.float32), normal(n, 1, device=device, dtype=torch.float32)
    return lambda: function(a, b, rows, cols)


def fill_kv_cache(tokens: int = 40, heads: int = 2, device: str = "cuda") -> Work:
    """Keys and values of two requests written into a paged cache."""
    function = _function("fill_kv_cache", "fill_kv_cache")
    k, v = (normal(2 * tokens, heads, 64, device=device) for _ in range(2))
    keys, values = (torch.zeros(8, 64, heads, 64, device=device, dtype=k.dtype) for _ in range(2))
    starts = torch.arange(2, device=device, dtype=torch.int32) * tokens
    lengths = torch.full((2,), tokens, device=device, dtype=torch.int32)
    table = torch.arange(4, device=device, dtype=torch.int32).view(2, 2)
    return lambda: function(k, v, keys, values, starts, lengths, lengths, tokens, table)


def paged_attention(requests: int = 2, pages: int = 3, device: str = "cuda") -> Work:
    """Decoding attention over a paged cache."""
    function = _function("pagedattention", "flash_attn_with_kvcache")
    q = normal(requests, 8, 64, device=device)
    keys, values = (normal(pages * requests, 64, 2, 64, device=device) for _ in range(2))
    lengths = torch.full((requests,), 64 * pages - 5, device=device, dtype=torch.int32)
    table = torch.arange(pages * requests, device=device, dtype=torch.int32).view(requests, pages)
    return lambda: function(q, keys, values, cache_seqlens=lengths, page_table=table)
