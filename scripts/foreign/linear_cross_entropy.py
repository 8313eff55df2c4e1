"""Apple's Cut Cross-Entropy kernels as targets.

`FOREIGN_CUT_CROSS_ENTROPY` names the checkout.
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

CCE = Library("cut_cross_entropy")
Work = Callable[[], object]


def _function(file: str, name: str) -> Any:
    return getattr(CCE.definitions(f"cut_cross_entropy/{file}.py", name), name)


def log_sum_exp(tokens: int = 130, vocabulary: int = 500, device: str = "cuda") -> Work:
    """Logarithm of the sum of exponentials of logits that are never stored."""
    function = _function("cce_lse_forward", "cce_lse_forward_kernel")
    e, c = normal(tokens, 128, device=device), normal(vocabulary, 128, device=device)
    return lambda: function(e, c)


def target_logits(tokens: int = 130, vocabulary: int = 500, device: str = "cuda") -> Work:
    """Logits of the targets."""
    function = _function("indexed_dot", "indexed_neg_dot_forward_kernel")
    e, c = normal(tokens, 128, device=device), normal(vocabulary, 128, device=device)
    targets = torch.arange(tokens, device=device) % vocabulary
    return lambda: function(e, c, targets)
