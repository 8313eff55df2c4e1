"""MegaBlocks' Triton kernels as targets. `FOREIGN_MEGABLOCKS` names the checkout."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library
from inputs import normal, one_configuration

MEGABLOCKS = Library("megablocks")
Work = Callable[[], object]
EXPERTS, TOP_K = 8, 2


def _function(name: str, kernel: str) -> Any:
    found = MEGABLOCKS.definitions("megablocks/backend/kernels.py", name, kernel)
    one_configuration(getattr(found, kernel))
    return getattr(found, name)


def _routes(tokens: int, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Copies of tokens in the order of their experts, these, and their ends.

    Each token has two experts, and all experts have as many tokens.
    """
    copies = torch.arange(tokens * TOP_K, device=device, dtype=torch.int32)
    each = tokens * TOP_K // EXPERTS
    order = copies % each * EXPERTS + copies // each
    ends = torch.arange(1, EXPERTS + 1, device=device, dtype=torch.int32) * each
    return order, copies // each, ends


def gather(tokens: int = 64, cols: int = 512, device: str = "cuda") -> Work:
    """Tokens in the order of their experts."""
    function, x = _function("gather", "_padded_copy"), normal(tokens, cols, device=device)
    order, expert, ends = _routes(tokens, device)
    return lambda: function(x, order, expert, None, ends, TOP_K)


def scatter(tokens: int = 64, cols: int = 512, device: str = "cuda") -> Work:
    """Weighted sums of what the experts made of each token."""
    function, x = _function("scatter", "_padded_copy"), normal(tokens * TOP_K, cols, device=device)
    weights = normal(tokens * TOP_K, device=device)
    order, expert, ends = _routes(tokens, device)
    return lambda: function(x, order, expert, weights, ends, TOP_K)


def scatter_weights(tokens: int = 64, cols: int = 512, device: str = "cuda") -> Work:
    """Gradients of the weights of those sums."""
    function, x = _function("scatter_wgrad", "_padded_copy_wgrad"), normal(tokens * TOP_K, cols, device=device)
    grad = normal(tokens, cols, device=device)
    order, expert, ends = _routes(tokens, device)
    return lambda: function(x, grad, order, expert, ends, TOP_K)


def binned_gather(tokens: int = 64, cols: int = 512, device: str = "cuda") -> Work:
    """Tokens in a box for each expert."""
    function, x = _function("binned_gather", "_binned_copy"), normal(tokens, cols, device=device)
    order, _, ends = _routes(tokens, device)
    return lambda: function(x, order, None, ends, tokens * TOP_K // EXPERTS, TOP_K)
