"""`attn_implementation="ioaware"` for Hugging Face's transformers.

Needs the package, 4.56 or later.

A model whose attention is causal or unmasked runs on `attention`'s kernels. Padding, sliding windows, packed sequences and
dropout need a mask that `attention` does not take: they raise an error that says so, and are never ignored.
"""

from __future__ import annotations

from typing import Any

import torch

from ioaware.errors import MachineError, UsageError
from ioaware.kernels.attention.dispatch import attention

NAME = "ioaware"
REMEDY = 'Use attn_implementation="sdpa", or inputs without padding.'


def register_with_transformers() -> None:
    """Make `attn_implementation="ioaware"` known to transformers.

    Raises MachineError where the package is missing.
    """
    try:
        from transformers import AttentionInterface, AttentionMaskInterface  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MachineError(
            "transformers is not installed, or has no AttentionInterface", "pip install -U transformers"
        ) from error
    AttentionInterface.register(NAME, attention_forward)
    AttentionMaskInterface.register(NAME, attention_mask)


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Return the attention of a layer as transformers wants it, and no weights.

    The shape is [batch, seq_len, heads, head_dim].
    """
    if attention_mask is not None:
        raise UsageError("attention takes no mask: this model or batch needs padding, a window or packed sequences", REMEDY)
    if dropout:
        raise UsageError(
            f"attention has no dropout, the model asks for {dropout}", "Set attn_pdrop or attention_dropout to 0.0."
        )
    for name in ("softcap", "s_aux", "position_bias", "cache"):
        if options.get(name) is not None:
            raise UsageError(f"attention has no {name}", REMEDY)
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    o = attention(query, key, value, causal=bool(causal), scale=scaling)
    return o.transpose(1, 2).contiguous(), None


def attention_mask(
    *,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: Any = 0,
    mask_function: Any = None,
    attention_mask: torch.Tensor | None = None,
    **options: Any,
) -> torch.Tensor | None:
    """Return None where `attention` computes this mask.

    It does for causal with the last query at the last key, or none at all.

    Else return the mask, which `attention_forward` refuses. Why not SDPA's own rule: it leaves out masks that are causal from
    the top left, as of a static cache that is longer than the queries.
    """
    # A name from the module itself: TorchDynamo refuses to import from the package, which is lazy.
    from transformers.masking_utils import (  # pyright: ignore[reportMissingImports]
        bidirectional_mask_function,
        causal_mask_function,
        sdpa_mask,
    )

    function = causal_mask_function if mask_function is None else mask_function
    aligned = type(q_offset) is type(kv_offset) is int and q_offset + q_length == kv_offset + kv_length
    supported = function is bidirectional_mask_function or (function is causal_mask_function and aligned)
    if supported and options.get("local_size") is None and _keeps_all(attention_mask):
        return None
    given = {**options, "allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    offsets = {"q_offset": q_offset, "kv_offset": kv_offset}
    return sdpa_mask(
        q_length=q_length, kv_length=kv_length, mask_function=function, attention_mask=attention_mask, **offsets, **given
    )


def _keeps_all(padding: torch.Tensor | None) -> bool:
    """Return whether a padding mask keeps every token.

    In a traced graph assert it, for the values come later.
    """
    if padding is None:
        return True
    if torch.compiler.is_compiling():
        torch._assert_async(padding.all(), "ioaware's attention takes no padding")  # pyright: ignore[reportPrivateUsage]
        return True
    return bool(padding.all())
