"""batch_invariant_ops' kernels as targets.

`FOREIGN_BATCH_INVARIANT` names the checkout.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library
from inputs import normal

BATCH_INVARIANT = Library("batch_invariant")
Work = Callable[[], object]


def _function(name: str) -> Any:
    return getattr(BATCH_INVARIANT.definitions("batch_invariant_ops/batch_invariant_ops.py", name), name)


def matmul(m: int = 200, n: int = 300, k: int = 160, device: str = "cuda") -> Work:
    """A persistent product of two matrices."""
    function, a, b = _function("matmul_persistent"), normal(m, k, device=device), normal(k, n, device=device)
    return lambda: function(a, b)


def matmul_with_bias(m: int = 200, n: int = 300, k: int = 160, device: str = "cuda") -> Work:
    """A persistent product of two matrices and a bias."""
    function, a, b = _function("matmul_persistent"), normal(m, k, device=device), normal(k, n, device=device)
    bias = normal(n, device=device)
    return lambda: function(a, b, bias)


def log_softmax(rows: int = 40, cols: int = 3000, device: str = "cuda") -> Work:
    """log_softmax of rows, block by block."""
    function, x = _function("log_softmax"), normal(rows, cols, device=device)
    return lambda: function(x)


def mean(rows: int = 40, cols: int = 3000, device: str = "cuda") -> Work:
    """Mean of rows."""
    function, x = _function("mean_dim"), normal(rows, cols, device=device)
    return lambda: function(x, 1)
