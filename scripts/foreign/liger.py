"""Liger-Kernel's operators, forward and backward, as targets.

`FOREIGN_LIGER` names the checkout.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library
from inputs import backward, normal, one_configuration

LIGER = Library("liger", "src")
Work = Callable[[], object]


def _operator(file: str, name: str) -> Any:
    return getattr(LIGER.definitions(f"liger_kernel/ops/{file}.py", name), name)


def rms_norm(rows: int = 160, cols: int = 1000, device: str = "cuda") -> Work:
    """RMSNorm as Llama has it."""
    function = _operator("rms_norm", "LigerRMSNormFunction")
    x, w = normal(rows, cols, device=device, grad=True), normal(cols, device=device, grad=True)
    return lambda: backward(function.apply(x, w, 1e-6, 0.0, "llama", False), x, w)


def layer_norm(rows: int = 160, cols: int = 1000, device: str = "cuda") -> Work:
    """LayerNorm with weight and bias."""
    function = _operator("layer_norm", "LigerLayerNormFunction")
    x, w, b = (normal(*shape, device=device, grad=True) for shape in ((rows, cols), (cols,), (cols,)))
    return lambda: backward(function.apply(x, w, b, 1e-6), x, w, b)


def fused_add_rms_norm(rows: int = 160, cols: int = 1000, device: str = "cuda") -> Work:
    """Residual addition and RMSNorm in one."""
    function = _operator("fused_add_rms_norm", "LigerFusedAddRMSNormFunction")
    x, r, w = (normal(*shape, device=device, grad=True) for shape in ((rows, cols), (rows, cols), (cols,)))
    return lambda: backward(function.apply(x, r, w, 1e-6, 0.0, "llama", False), x, r, w)


def swiglu(rows: int = 160, cols: int = 1000, device: str = "cuda") -> Work:
    """silu(a) * b."""
    importlib.import_module("torch.distributed.tensor")  # the operator asks torch for it by attribute
    function = _operator("swiglu", "LigerSiLUMulFunction")
    a, b = normal(rows, cols, device=device, grad=True), normal(rows, cols, device=device, grad=True)
    return lambda: backward(function.apply(a, b), a, b)


def geglu(rows: int = 160, cols: int = 1000, device: str = "cuda") -> Work:
    """gelu(a) * b, the tanh approximation."""
    function = _operator("geglu", "LigerGELUMulFunction")
    a, b = normal(rows, cols, device=device, grad=True), normal(rows, cols, device=device, grad=True)
    return lambda: backward(function.apply(a, b), a, b)


def relu_squared(rows: int = 160, cols: int = 1000, device: str = "cuda") -> Work:
    """relu(x) squared."""
    function = _operator("relu_squared", "LigerReLUSquaredFunction")
    x = normal(rows, cols, device=device, grad=True)
    return lambda: backward(function.apply(x), x)


def softmax(rows: int = 64, cols: int = 1000, device: str = "cuda") -> Work:
    """Softmax of rows that fit into one block, or do not."""
    function = _operator("softmax", "LigerSoftmaxFunction")
    x = normal(rows, cols, device=device, grad=True)
    return lambda: backward(function.apply(x), x)


def sparsemax(rows: int = 64, cols: int = 1000, device: str = "cuda") -> Work:
    """Sparsemax of rows."""
    function = _operator("sparsemax", "LigerSparsemaxFunction")
    x = normal(rows, cols, device=device, dtype=torch.float32, grad=True)
    return lambda: backward(function.apply(x, -1), x)


def rope(batch: int = 2, seq_len: int = 64, heads: int = 8, kv_heads: int = 2, device: str = "cuda") -> Work:
    """Rotary embedding of queries and keys, heads of 64."""
    function = _operator("rope", "LigerRopeFunction")
    q, k = (normal(batch, count, seq_len, 64, device=device, grad=True) for count in (heads, kv_heads))
    cos, sin = normal(1, seq_len, 64, device=device), normal(1, seq_len, 64, device=device)
    return lambda: backward(function.apply(q, k, cos, sin), q, k)


def qwen2vl_mrope(batch: int = 2, seq_len: int = 64, heads: int = 8, kv_heads: int = 2, device: str = "cuda") -> Work:
    """Rotary embedding with three position axes."""
    function = _operator("qwen2vl_mrope", "LigerQwen2VLMRopeFunction")
    q, k = (normal(batch, count, seq_len, 64, device=device, grad=True) for count in (heads, kv_heads))
    cos, sin = normal(3, batch, seq_len, 64, device=device), normal(3, batch, seq_len, 64, device=device)
    return lambda: backward(function.apply(q, k, cos, sin, [16, 8, 8]), q, k)


def llama4_rope(batch: int = 2, seq_len: int = 16, heads: int = 8, kv_heads: int = 2, device: str = "cuda") -> Work:
    """Rotary embedding with complex frequencies."""
    function = _operator("llama4_rope", "LigerLlama4RopeFunction")
    q, k = (normal(batch, seq_len, count, 64, device=device, grad=True) for count in (heads, kv_heads))
    frequencies = normal(seq_len, 32, 2, device=device, dtype=torch.float32)
    return lambda: backward(function.apply(q, k, torch.view_as_complex(frequencies)), q, k)


def cross_entropy(rows: int = 256, vocabulary: int = 5000, device: str = "cuda") -> Work:
    """Cross entropy with the gradient in place of the logits; the targets are data."""
    function = _operator("cross_entropy", "LigerCrossEntropyFunction")
    logits = normal(rows, vocabulary, device=device, grad=True)
    target = torch.zeros(rows, device=device, dtype=torch.long)
    return lambda: function.apply(logits, target, None)


def kl_div(rows: int = 256, vocabulary: int = 1000, device: str = "cuda") -> Work:
    """Kullback-Leibler divergence."""
    function = _operator("kl_div", "LigerKLDivLossFunction")
    x, t = (normal(rows, vocabulary, device=device, dtype=torch.float32, grad=grad) for grad in (True, False))
    return lambda: backward(function.apply(x, t, "batchmean", False, 1e-10), x)


def jsd(rows: int = 256, vocabulary: int = 1000, device: str = "cuda") -> Work:
    """Jensen-Shannon divergence."""
    function = _operator("jsd", "LigerJSDFunction")
    x, t = (normal(rows, vocabulary, device=device, dtype=torch.float32, grad=grad) for grad in (True, False))
    return lambda: backward(function.apply(x, t, None, 0.5, -100), x)


def tvd(rows: int = 256, vocabulary: int = 1000, device: str = "cuda") -> Work:
    """Total variation distance."""
    function = _operator("tvd", "LigerTVDLossFunction")
    x, t = (normal(rows, vocabulary, device=device, dtype=torch.float32, grad=grad) for grad in (True, False))
    return lambda: backward(function.apply(x, t, None, "batchmean", -100), x)


def group_norm(batch: int = 4, channels: int = 32, pixels: int = 512, device: str = "cuda") -> Work:
    """GroupNorm over 8 groups; its backward adds up with atomics."""
    function = _operator("group_norm", "LigerGroupNormFunction")
    x = normal(batch, channels, pixels, device=device, dtype=torch.float32, grad=True)
    w, b = (normal(channels, device=device, dtype=torch.float32, grad=True) for _ in range(2))
    return lambda: backward(function.apply(x, w, b, channels, 8, 1e-6), x, w, b)


def dyt(rows: int = 256, cols: int = 1024, device: str = "cuda") -> Work:
    """Dynamic tanh."""
    operator = LIGER.definitions("liger_kernel/ops/dyt.py", "LigerDyTFunction", "_dyt_fwd_kernel", "_dyt_bwd_kernel")
    for kernel in (operator._dyt_fwd_kernel, operator._dyt_bwd_kernel):
        one_configuration(kernel)
    function = operator.LigerDyTFunction
    x, a, g, b = (normal(*shape, device=device, grad=True) for shape in ((rows, cols), (1,), (cols,), (cols,)))
    return lambda: backward(function.apply(x, a, g, b), x, a, g, b)


def poly_norm(rows: int = 256, cols: int = 1024, device: str = "cuda") -> Work:
    """A polynomial of normalised powers."""
    function = _operator("poly_norm", "LigerPolyNormFunction")
    x, w, b = normal(rows, cols, device=device, grad=True), normal(3, device=device, grad=True), normal(1, device=device)
    return lambda: backward(function.apply(x, w, b[0].detach().requires_grad_(), 1e-6, False), x, w)


def neighborhood_attention(seq_len: int = 128, heads: int = 2, device: str = "cuda") -> Work:
    """Attention within a window, as nine kernels."""
    function = _operator("fused_neighborhood_attention", "LigerFusedNeighborhoodAttentionFunction")
    q, k, v = (normal(1, heads, seq_len, 64, device=device, grad=True) for _ in range(3))
    return lambda: backward(function.apply(q, k, v, 7, 1, None), q, k, v)


def attention_residual(blocks: int = 4, rows: int = 64, cols: int = 512, device: str = "cuda") -> Work:
    """Attention over the residuals of earlier blocks."""
    function = _operator("attn_res", "LigerAttnResFunction")
    v = normal(blocks, rows, cols, device=device, grad=True)
    query, norm = normal(cols, device=device, grad=True), normal(cols, device=device, grad=True)
    return lambda: backward(function.apply(v, query, norm, 1e-6), v, query, norm)


def modulated_rms_norm(batch: int = 4, seq_len: int = 64, cols: int = 1000, device: str = "cuda") -> Work:
    """RMSNorm scaled and shifted per sequence."""
    import torch.distributed.tensor  # noqa: F401 - other modules of the package have imported it by then

    function = _operator("modulated_rms_norm", "LigerModulatedRMSNormFunction")
    x, w = normal(batch, seq_len, cols, device=device, grad=True), normal(cols, device=device, grad=True)
    scale, shift = (normal(batch, cols, device=device, grad=True) for _ in range(2))
    return lambda: backward(function.apply(x, w, scale, shift, 1e-6, 0.0, "llama", False), x, w, scale, shift)
