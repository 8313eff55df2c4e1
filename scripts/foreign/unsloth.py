"""Unsloth's kernels as targets. `FOREIGN_UNSLOTH` names the checkout."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import triton.language as tl
from triton.language.extra import libdevice

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library
from inputs import backward, normal

UNSLOTH = Library("unsloth")
Work = Callable[[], object]


def _nowhere(_tensor: object) -> nullcontext[None]:
    return nullcontext()


def _cdna() -> bool:
    return False


# What the library's own modules work out about the machine, said outright: one CUDA device.
GIVEN: dict[str, Any] = {
    "torch_gpu_device": _nowhere,
    "_fp8_triton_device_context": _nowhere,
    "is_cdna": _cdna,
    "DEVICE_COUNT": 1,
    "triton_tanh": libdevice.tanh,  # pyright: ignore[reportUnknownMemberType]
    "triton_cast": tl.cast,  # pyright: ignore[reportUnknownMemberType]
}


def _function(file: str, name: str) -> Any:
    return getattr(UNSLOTH.definitions(f"unsloth/kernels/{file}.py", name, given=GIVEN), name)


def rms_norm(rows: int = 256, cols: int = 1000, device: str = "cuda") -> Work:
    """RMSNorm; the weight gets no gradient."""
    function = _function("rms_layernorm", "Fast_RMS_Layernorm")
    x, w = normal(rows, cols, device=device, grad=True), normal(cols, device=device)
    return lambda: backward(function.apply(x, w, 1e-6, False), x)


def layer_norm(rows: int = 256, cols: int = 1000, device: str = "cuda") -> Work:
    """LayerNorm; weight and bias get no gradient."""
    function = _function("layernorm", "Fast_Layernorm")
    x, w, b = normal(rows, cols, device=device, grad=True), normal(cols, device=device), normal(cols, device=device)
    return lambda: backward(function.apply(x, w, b, 1e-6), x)


def swiglu(batch: int = 2, seq_len: int = 100, cols: int = 1000, device: str = "cuda") -> Work:
    """swish(e) g, forward and backward."""
    forward, backward_of = _function("swiglu", "swiglu_fg_kernel"), _function("swiglu", "swiglu_DWf_DW_dfg_kernel")
    e, g = (normal(batch, seq_len, cols, device=device) for _ in range(2))
    dw, flat_e, flat_g = (normal(batch * seq_len, cols, device=device) for _ in range(3))
    return lambda: (forward(e, g), backward_of(dw, flat_e, flat_g))


def _geglu(kind: str, batch: int, seq_len: int, cols: int, device: str) -> Work:
    forward, backward_of = (_function("geglu", f"geglu_{kind}_{way}_kernel") for way in ("forward", "backward"))
    e, g = (normal(batch, seq_len, cols, device=device) for _ in range(2))
    dw, flat_e, flat_g = (normal(batch * seq_len, cols, device=device) for _ in range(3))
    return lambda: (forward(e, g), backward_of(dw, flat_e, flat_g))


def geglu_exact(batch: int = 2, seq_len: int = 100, cols: int = 1000, device: str = "cuda") -> Work:
    """gelu(e) g with the error function."""
    return _geglu("exact", batch, seq_len, cols, device)


def geglu_approx(batch: int = 2, seq_len: int = 100, cols: int = 1000, device: str = "cuda") -> Work:
    """gelu(e) g with tanh."""
    return _geglu("approx", batch, seq_len, cols, device)


def rope(batch: int = 2, seq_len: int = 100, heads: int = 8, device: str = "cuda") -> Work:
    """Rotary embedding in place, heads of 64."""
    function = _function("rope_embedding", "Fast_RoPE_Embedding")
    q = normal(batch, seq_len, heads, 64, device=device, grad=True)
    cos, sin = normal(seq_len, 64, device=device), normal(seq_len, 64, device=device)
    return lambda: backward(function.apply(q * 1, cos, sin), q)


def rope_qk(batch: int = 2, seq_len: int = 100, heads: int = 8, kv_heads: int = 2, device: str = "cuda") -> Work:
    """Rotary embedding of queries and keys in place, heads of 64."""
    function = _function("rope_embedding", "Fast_RoPE_Embedding_QK")
    q, k = (normal(batch, count, seq_len, 64, device=device, grad=True) for count in (heads, kv_heads))
    cos, sin = normal(seq_len, 64, device=device), normal(seq_len, 64, device=device)
    return lambda: backward(function.apply(q * 1, k * 1, cos, sin, None), q, k)


def cross_entropy(rows: int = 128, vocabulary: int = 5000, device: str = "cuda") -> Work:
    """Cross entropy; the labels are data."""
    function = _function("cross_entropy_loss", "Fast_CrossEntropyLoss")
    logits = normal(rows, vocabulary, device=device, grad=True)
    labels = torch.zeros(rows, device=device, dtype=torch.long)
    return lambda: backward(function.apply(logits * 1, labels, 0, 0), logits)


def act_quant(rows: int = 200, cols: int = 1024, device: str = "cuda") -> Work:
    """Activations to fp8 with a scale for every 128."""
    function = _function("fp8", "act_quant")
    x = normal(rows, cols, device=device)
    return lambda: function(x)


def weight_dequant(rows: int = 500, cols: int = 1000, device: str = "cuda") -> Work:
    """An fp8 matrix with a scale for every block of 128 x 128 to bfloat16."""
    function = _function("fp8", "weight_dequant_block")
    x = normal(rows, cols, device=device).to(torch.float8_e4m3fn)
    scales = normal((rows + 127) // 128, (cols + 127) // 128, device=device, dtype=torch.float32)
    return lambda: function(x, scales)


def fp8_matmul(m: int = 256, n: int = 256, k: int = 256, device: str = "cuda") -> Work:
    """C = A B of fp8 matrices with scales for blocks."""
    function = _function("fp8", "w8a8_block_fp8_matmul_triton")
    a, b = (normal(size, k, device=device).to(torch.float8_e4m3fn) for size in (m, n))
    scales = normal(m, k // 128, device=device, dtype=torch.float32)
    block_scales = normal(n // 128, k // 128, device=device, dtype=torch.float32)
    return lambda: function(a, b, scales, block_scales, [128, 128])
