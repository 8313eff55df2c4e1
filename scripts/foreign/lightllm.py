"""LightLLM's inference kernels as targets. `FOREIGN_LIGHTLLM` names the checkout."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library
from inputs import normal

LIGHTLLM = Library("lightllm")
Work = Callable[[], object]
HALF = torch.float16


def _function(file: str, name: str) -> Any:
    return getattr(LIGHTLLM.definitions(f"lightllm/{file}.py", name), name)


def rms_norm(rows: int = 256, cols: int = 1000, device: str = "cuda") -> Work:
    """RMSNorm forward."""
    function = _function("models/llama/triton_kernel/rmsnorm", "rmsnorm_forward")
    x, w = normal(rows, cols, device=device, dtype=HALF), normal(cols, device=device, dtype=HALF)
    return lambda: function(x, w, 1e-6)


def rotary(tokens: int = 200, heads: int = 8, kv_heads: int = 2, device: str = "cuda") -> Work:
    """Rotary embedding of queries and keys in place, heads of 128."""
    function = _function("models/llama/triton_kernel/rotary_emb", "rotary_emb_fwd")
    q, k = (normal(tokens, count, 128, device=device, dtype=HALF) for count in (heads, kv_heads))
    cos, sin = normal(tokens, 64, device=device, dtype=HALF), normal(tokens, 64, device=device, dtype=HALF)
    return lambda: function(q, k, cos, sin)


def silu_and_mul(rows: int = 256, cols: int = 1000, device: str = "cuda") -> Work:
    """silu of one half of the columns times the other."""
    function = _function("models/llama/triton_kernel/silu_and_mul", "silu_and_mul_fwd")
    x, out = normal(rows, 2 * cols, device=device, dtype=HALF), torch.empty(rows, cols, device=device, dtype=HALF)
    return lambda: function(x, out)


def gelu_and_mul(rows: int = 256, cols: int = 1000, device: str = "cuda") -> Work:
    """gelu of one half of the columns times the other."""
    function = _function("models/gemma_2b/triton_kernel/gelu_and_mul", "gelu_and_mul_fwd")
    x, out = normal(rows, 2 * cols, device=device, dtype=HALF), torch.empty(rows, cols, device=device, dtype=HALF)
    return lambda: function(x, out)


def add_in_place(n: int = 100_000, device: str = "cuda") -> Work:
    """x += y."""
    function = _function("common/basemodel/triton_kernel/add_in_place", "add_in_place")
    x, y = normal(n, device=device, dtype=HALF), normal(n, device=device, dtype=HALF)
    return lambda: function(x, y)


def copy_to_cache(tokens: int = 200, heads: int = 6, device: str = "cuda") -> Work:
    """Keys and values to the places that an index in memory says."""
    function = _function("common/basemodel/triton_kernel/destindex_copy_kv", "destindex_copy_kv")
    kv, cache = (normal(count, heads, 128, device=device, dtype=HALF) for count in (tokens, 2 * tokens))
    places = torch.arange(0, 2 * tokens, 2, device=device, dtype=torch.int32)
    return lambda: function(kv, places, cache)


def weight_quant(rows: int = 500, cols: int = 1000, device: str = "cuda") -> Work:
    """A matrix to fp8 with a scale for every block of 128 x 128."""
    function = _function("common/quantization/triton_quant/fp8/fp8w8a8_block_quant_kernel", "mm_weight_quant")
    x = normal(rows, cols, device=device)
    return lambda: function(x)


def softmax_topk(tokens: int = 200, experts: int = 60, device: str = "cuda") -> Work:
    """The six best experts of each token and their weights."""
    function = _function("common/fused_moe/softmax_topk", "softmax_topk")
    logits = normal(tokens, experts, device=device, dtype=torch.float32)
    return lambda: function(logits, 6)


def token_softmax(batch: int = 4, heads: int = 8, seq_len: int = 500, device: str = "cuda") -> Work:
    """Softmax over sequences whose lengths are in memory."""
    function = _function("models/llama/triton_kernel/token_attention_nopad_softmax", "token_softmax_fwd")
    logits, out = (normal(heads, batch * seq_len, device=device, dtype=HALF) for _ in range(2))
    starts = torch.arange(0, batch, device=device, dtype=torch.int32) * seq_len
    lengths = torch.full((batch,), seq_len, device=device, dtype=torch.int32)
    return lambda: function(logits, starts, lengths, out, seq_len)
