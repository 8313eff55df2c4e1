"""Mamba's Triton operators as targets. `FOREIGN_MAMBA` names the checkout."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library
from inputs import normal

MAMBA = Library("mamba")
Work = Callable[[], object]
FLOAT = torch.float32


def _function(file: str, name: str) -> Any:
    return getattr(MAMBA.definitions(f"mamba_ssm/ops/triton/{file}.py", name), name)


def swiglu(rows: int = 40, cols: int = 512, device: str = "cuda") -> Work:
    """silu(x) * y of two halves."""
    function, xy = _function("k_activations", "_swiglu_fwd"), normal(rows, 2 * cols, device=device)
    return lambda: function(xy)


def swiglu_backward(rows: int = 40, cols: int = 512, device: str = "cuda") -> Work:
    """Gradient of silu(x) * y."""
    function = _function("k_activations", "_swiglu_bwd")
    xy, grad = normal(rows, 2 * cols, device=device), normal(rows, cols, device=device)
    return lambda: function(xy, grad)


def layer_norm(rows: int = 40, cols: int = 700, device: str = "cuda") -> Work:
    """LayerNorm with a residual."""
    function = _function("layer_norm", "_layer_norm_fwd")
    x, r, w, b = (normal(*shape, device=device) for shape in ((rows, cols), (rows, cols), (cols,), (cols,)))
    return lambda: function(x, w, b, 1e-6, residual=r)


def layer_norm_backward(rows: int = 40, cols: int = 700, device: str = "cuda") -> Work:
    """Gradients of LayerNorm."""
    function = _function("layer_norm", "_layer_norm_bwd")
    grad, x, w, b = (normal(*shape, device=device) for shape in ((rows, cols), (rows, cols), (cols,), (cols,)))
    mean, rstd = (normal(rows, device=device, dtype=FLOAT) for _ in range(2))
    return lambda: function(grad, x, w, b, 1e-6, mean, rstd)


def gated_rms_norm(rows: int = 40, cols: int = 700, device: str = "cuda") -> Work:
    """RMSNorm of x * silu(z)."""
    function = _function("layernorm_gated", "_layer_norm_fwd")
    x, z, w = (normal(*shape, device=device) for shape in ((rows, cols), (rows, cols), (cols,)))
    return lambda: function(x, w, None, 1e-6, z=z, is_rms_norm=True)


def gated_rms_norm_backward(rows: int = 40, cols: int = 700, device: str = "cuda") -> Work:
    """Gradients of RMSNorm of x * silu(z)."""
    function = _function("layernorm_gated", "_layer_norm_bwd")
    grad, x, z, w = (normal(*shape, device=device) for shape in ((rows, cols), (rows, cols), (rows, cols), (cols,)))
    rstd = normal(rows, device=device, dtype=FLOAT)
    return lambda: function(grad, x, w, None, 1e-6, None, rstd, z=z, is_rms_norm=True)


def state_update(batch: int = 3, heads: int = 4, device: str = "cuda") -> Work:
    """One step of the state-space recurrence."""
    function = _function("selective_state_update", "selective_state_update")
    state, x = normal(batch, heads, 64, 16, device=device), normal(batch, heads, 64, device=device)
    dt, a = normal(batch, heads, 64, device=device), normal(heads, 64, 16, device=device)
    b, c = (normal(batch, 1, 16, device=device) for _ in range(2))
    d, z, bias = normal(heads, 64, device=device), normal(batch, heads, 64, device=device), normal(heads, 64, device=device)
    return lambda: function(state, x, dt, a, b, c, D=d, z=z, dt_bias=bias)


def chunk_products(batch: int = 2, chunks: int = 3, device: str = "cuda") -> Work:
    """C times B of each chunk."""
    function = _function("ssd_bmm", "_bmm_chunk_fwd")
    a, b = (normal(batch, 64 * chunks, 2, 64, device=device) for _ in range(2))
    return lambda: function(a, b, 64, causal=True)


def chunk_cumsum(batch: int = 2, chunks: int = 3, heads: int = 4, device: str = "cuda") -> Work:
    """Cumulative decay of each chunk."""
    function = _function("ssd_chunk_state", "_chunk_cumsum_fwd")
    dt, a = normal(batch, 64 * chunks, heads, device=device), normal(heads, device=device, dtype=FLOAT)
    return lambda: function(dt, a, 64)


def chunk_state(batch: int = 2, chunks: int = 3, heads: int = 4, device: str = "cuda") -> Work:
    """State of each chunk."""
    function = _function("ssd_chunk_state", "_chunk_state_fwd")
    b, x = normal(batch, 64 * chunks, 1, 64, device=device), normal(batch, 64 * chunks, heads, 64, device=device)
    dt, sums = (normal(batch, heads, chunks, 64, device=device, dtype=FLOAT) for _ in range(2))
    return lambda: function(b, x, dt, sums)


def state_passing(batch: int = 2, chunks: int = 3, heads: int = 4, device: str = "cuda") -> Work:
    """States handed from chunk to chunk."""
    function = _function("ssd_state_passing", "_state_passing_fwd")
    states, sums = normal(batch, chunks, heads, 1024, device=device), normal(batch, heads, chunks, device=device, dtype=FLOAT)
    return lambda: function(states, sums)


def chunk_scan(batch: int = 2, chunks: int = 3, heads: int = 4, device: str = "cuda") -> Work:
    """Output of each chunk."""
    function = _function("ssd_chunk_scan", "_chunk_scan_fwd")
    cb, x = normal(batch, chunks, 1, 64, 64, device=device), normal(batch, 64 * chunks, heads, 64, device=device)
    dt, sums = (normal(batch, heads, chunks, 64, device=device, dtype=FLOAT) for _ in range(2))
    c, states = normal(batch, 64 * chunks, 1, 64, device=device), normal(batch, chunks, heads, 64, 64, device=device)
    return lambda: function(cb, x, dt, sums, c, states)
