"""attention-gym's Triton kernels as targets.

`FOREIGN_ATTENTION_GYM` names the checkout.
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

ATTENTION_GYM = Library("attention_gym")
Work = Callable[[], object]


def _function(file: str, name: str) -> Any:
    return getattr(ATTENTION_GYM.definitions(f"attn_gym/{file}.py", name), name)


def mask_inactive_rows(rows: int = 200, cols: int = 500, device: str = "cuda") -> Work:
    """Rows zeroed where a mask in memory says so."""
    function = _function("linear/kda/fwd/triton/masking", "mask_inactive_rows")
    x, active = normal(1, rows, cols, device=device), torch.ones(rows, device=device, dtype=torch.bool)
    return lambda: function(x, active)
