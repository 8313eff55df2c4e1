"""Race attention of other libraries, where installed.

They are FlashAttention 2, 3 and 4, and FlashInfer.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ioaware.bench.attention_points import Point
from ioaware.bench.backend import Candidate, UnsupportedError

if TYPE_CHECKING:
    from torch import Tensor


def flash_attn(module: str) -> Callable[[Point], Candidate]:
    """Return a back end for `flash_attn_func` of that module.

    Its layout is [batch, seq_len, heads, head_dim], causal from the lower right corner. For decoding it chooses its number of
    splits itself.
    """

    def prepare(point: Point) -> Candidate:
        call: Any = importlib.import_module(module).flash_attn_func
        splits = "num_splits" in inspect.signature(call).parameters and point.what == "decode"
        how: dict[str, Any] = {"causal": point.causal} | ({"num_splits": 0} if splits else {})

        def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            output = call(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), **how)
            return (output[0] if isinstance(output, tuple) else output).transpose(1, 2)

        return Candidate(forward)

    return prepare


def flashinfer(point: Point) -> Candidate:
    """Return FlashInfer's attention of a single sequence; it has no backward."""
    if point.what == "backward":
        raise UnsupportedError("FlashInfer has no backward pass")
    if point.batch > 1:
        raise UnsupportedError("FlashInfer's batches are [rows, heads, head_dim], which these strides would need a copy for")
    library: Any = importlib.import_module("flashinfer")

    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        output = library.single_prefill_with_kv_cache(
            q[0].transpose(0, 1), k[0].transpose(0, 1), v[0].transpose(0, 1), causal=point.causal
        )
        return output.transpose(0, 1).unsqueeze(0)

    return Candidate(forward)


LIBRARIES: tuple[tuple[str, str, Callable[[Point], Candidate]], ...] = (
    ("flash-attn-2", "flash_attn.flash_attn_interface", flash_attn("flash_attn.flash_attn_interface")),
    ("flash-attn-3", "flash_attn_interface", flash_attn("flash_attn_interface")),
    ("flash-attn-4", "flash_attn.cute", flash_attn("flash_attn.cute")),
    ("flashinfer", "flashinfer", flashinfer),
)
"""Name, module that shows whether it is installed, and adapter.

flash_attn alone may be a folder with version 4 in it.
"""
