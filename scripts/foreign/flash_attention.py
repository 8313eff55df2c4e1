"""The Triton operators in FlashAttention's repository as targets.

`FOREIGN_FLASH_ATTENTION` names the checkout.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library
from inputs import backward, normal

FLASH_ATTENTION = Library("flash_attention")
Work = Callable[[], object]


def _function(file: str, name: str) -> Any:
    return getattr(FLASH_ATTENTION.definitions(f"flash_attn/{file}.py", name), name)


def rotary(batch: int = 2, seq_len: int = 200, heads: int = 6, device: str = "cuda") -> Work:
    """Rotary embedding, heads of 64."""
    function = _function("ops/triton/rotary", "apply_rotary")
    x = normal(batch, seq_len, heads, 64, device=device)
    cos, sin = normal(seq_len, 32, device=device), normal(seq_len, 32, device=device)
    return lambda: function(x, cos, sin)


def rotary_interleaved(batch: int = 2, seq_len: int = 200, heads: int = 6, device: str = "cuda") -> Work:
    """Rotary embedding on interleaved lanes, heads of 64."""
    function = _function("ops/triton/rotary", "apply_rotary")
    x = normal(batch, seq_len, heads, 64, device=device)
    cos, sin = normal(seq_len, 32, device=device), normal(seq_len, 32, device=device)
    return lambda: function(x, cos, sin, interleaved=True)


def cross_entropy(rows: int = 128, vocabulary: int = 5000, device: str = "cuda") -> Work:
    """Cross entropy; the labels are data."""
    function = _function("ops/triton/cross_entropy", "cross_entropy_loss")
    logits = normal(rows, vocabulary, device=device, grad=True)
    labels = torch.zeros(rows, device=device, dtype=torch.long)
    return lambda: backward(function(logits, labels)[0], logits)


def layer_norm(rows: int = 200, cols: int = 1000, device: str = "cuda") -> Work:
    """LayerNorm with weight and bias."""
    function = _function("ops/triton/layer_norm", "layer_norm_fn")
    x, w, b = (normal(*shape, device=device, grad=True) for shape in ((rows, cols), (cols,), (cols,)))
    return lambda: backward(function(x, w, b), x, w, b)


def rms_norm_residual(rows: int = 200, cols: int = 1000, device: str = "cuda") -> Work:
    """RMSNorm of the sum with a residual."""
    function = _function("ops/triton/layer_norm", "rms_norm_fn")
    x, r, w = (normal(*shape, device=device, grad=True) for shape in ((rows, cols), (rows, cols), (cols,)))
    return lambda: backward(function(x, w, None, residual=r), x, r, w)
