"""ScatterMoE's kernels as targets. `FOREIGN_SCATTERMOE` names the checkout."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library
from inputs import normal

SCATTERMOE = Library("scattermoe")
Work = Callable[[], object]


def _function(name: str) -> Any:
    return getattr(SCATTERMOE.definitions("scattermoe/kernels/ops.py", name), name)


def scatter_to_scatter(tokens: int = 40, cols: int = 128, device: str = "cuda") -> Work:
    """Each token times the matrix of its expert, two experts a token of four."""
    function = _function("scatter2scatter")
    x, w = normal(tokens, cols, device=device), normal(4, cols, 64, device=device)
    experts = torch.arange(2 * tokens, device=device) * 4 // (2 * tokens)
    order = torch.arange(2 * tokens, device=device)
    return lambda: function(x, w, experts, order, 2)


def group(tokens: int = 40, cols: int = 128, device: str = "cuda") -> Work:
    """Tokens in the order of their experts."""
    function, x = _function("group"), normal(tokens, cols, device=device)
    order = torch.arange(tokens, device=device)
    return lambda: function(x, order)


def group_gradient(tokens: int = 40, cols: int = 128, device: str = "cuda") -> Work:
    """Gradient of the matrices of four experts."""
    function = _function("group_bwd_W")
    grad, x = normal(tokens, 64, device=device), normal(tokens, cols, device=device)
    ends = torch.arange(1, 5, device=device) * tokens // 4
    return lambda: function(grad, x, ends, 4)
