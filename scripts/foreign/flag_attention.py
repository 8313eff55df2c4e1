"""FlagAttention's operators as targets.

`FOREIGN_FLAG_ATTENTION` names the checkout.
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
from inputs import backward, normal

Work = Callable[[], object]
HALF = torch.float16


def _function(name: str) -> Any:
    root = str(Library("flag_attention", "src").root)
    if root not in sys.path:
        sys.path.append(root)
    return importlib.import_module(f"flag_attn.{name}").attention


def _given(count: int, seq_len: int, heads: int, device: str) -> list[torch.Tensor]:
    return [normal(1, heads, seq_len, 64, device=device, dtype=HALF, grad=True) for _ in range(count)]


def flash(seq_len: int = 256, heads: int = 2, device: str = "cuda") -> Work:
    """FlashAttention, forward and backward."""
    function, given = _function("flash"), _given(3, seq_len, heads, device)
    return lambda: backward(function(*given, causal=True), *given)


def piecewise(seq_len: int = 256, heads: int = 2, device: str = "cuda") -> Work:
    """Attention with other queries and keys beyond a distance."""
    function, given = _function("piecewise"), _given(5, seq_len, heads, device)
    return lambda: backward(function(*given, dist_threshold=100, causal=True), *given)


def split_kv(kv_len: int = 1024, heads: int = 2, device: str = "cuda") -> Work:
    """Decoding attention with split keys."""
    function = _function("split_kv")
    q, k, v = (normal(1, heads, length, 64, device=device, dtype=HALF) for length in (1, kv_len, kv_len))
    return lambda: function(q, k, v)


def paged(requests: int = 2, pages: int = 6, device: str = "cuda") -> Work:
    """Decoding attention over a paged cache."""
    function = _function("paged")
    q = normal(requests, 8, 64, device=device, dtype=HALF)
    keys, values = (normal(requests * pages, 2, 16, 64, device=device, dtype=HALF) for _ in range(2))
    lengths = torch.full((requests,), 16 * pages - 3, device=device, dtype=torch.int32)
    table = torch.arange(requests * pages, device=device, dtype=torch.int32).view(requests, pages)
    return lambda: function(q, keys, values, lengths, table, 0.125, 16 * pages, 1)
