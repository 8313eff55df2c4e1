"""xFormers' Triton kernels as targets. `FOREIGN_XFORMERS` names the checkout."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library
from inputs import normal

XFORMERS = Library("xformers")
Work = Callable[[], object]


def _function(file: str, name: str) -> Any:
    return getattr(XFORMERS.definitions(f"xformers/ops/_triton/{file}.py", name), name)


def _half(rows: int, device: str) -> torch.Tensor:
    """Every second row, the last first."""
    return torch.arange(rows // 2, device=device).flip(0) * 2


def rms_norm(rows: int = 40, cols: int = 700, device: str = "cuda") -> Work:
    """RMSNorm, which reads its rows twice."""
    function = _function("rmsnorm_kernels", "_rms_norm_forward")
    x, w = normal(rows, cols, device=device), normal(cols, device=device)
    return lambda: function(x, w, 1e-6)


def rms_norm_add(rows: int = 40, cols: int = 700, device: str = "cuda") -> Work:
    """RMSNorm of a sum, which is stored in its first term."""
    function = _function("rmsnorm_kernels", "_rms_norm_add_forward")
    x, y, w = (normal(*shape, device=device) for shape in ((rows, cols), (rows, cols), (cols,)))
    return lambda: function(x, y, w, 1e-6)


def index_select(rows: int = 40, cols: int = 700, device: str = "cuda") -> Work:
    """Half of the rows."""
    function = _function("k_index_select_cat", "index_select_cat_fwd")
    x, index = normal(rows, cols, device=device), _half(rows, device)
    out = torch.empty(rows // 2, cols, device=device, dtype=x.dtype)
    return lambda: function(out, x, index)


def scaled_index_add(batch: int = 8, rows: int = 40, cols: int = 700, device: str = "cuda") -> Work:
    """Adds scaled rows to half of a batch."""
    function, index = _function("k_scaled_index_add", "scaled_index_add_fwd"), _half(batch, device)
    x, source = (normal(number, rows, cols, device=device) for number in (batch, batch // 2))
    scaling = normal(cols, device=device)
    return lambda: function(x, index, source, scaling, 0.5)


def scaled_index_add_backward(batch: int = 8, rows: int = 40, cols: int = 700, device: str = "cuda") -> Work:
    """Gradients of the scaled rows and of their scales."""
    function, index = _function("k_scaled_index_add", "scaled_index_add_bwd"), _half(batch, device)
    grad = normal(batch, rows, cols, device=device)
    source, grad_source, grad_scaling = (normal(batch // 2, rows, cols, device=device) for _ in range(3))
    scaling = normal(cols, device=device)
    return lambda: function(grad, grad_source, grad_scaling, source, scaling, index, 0.5)
