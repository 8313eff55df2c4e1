"""Offer torch.nn.functional's SDPA signature on `attention`'s kernels.

The alignment of the causal mask is SDPA's, too.

SDPA's causal mask starts at the top left: query i sees keys 0 to i. `attention` aligns the last query with the last key. They
agree for as many queries as keys; otherwise the keys that no query sees are left out, or the queries that see every key
become a call of their own.
"""

from __future__ import annotations

import torch

from ioaware.errors import UsageError
from ioaware.kernels.attention.dispatch import attention

SDPA = "torch.nn.functional.scaled_dot_product_attention"


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Compute softmax(scale Q K^T) V where `attention` can.

    The result is that of torch.nn.functional.scaled_dot_product_attention.

    query [..., heads, seq_len, head_dim]; key, value [..., kv_heads, kv_len, head_dim] with the same leading axes, any number.
    Raises UsageError for what torch takes and `attention` does not: a mask, dropout, a head_dim of value that differs, leading
    axes that broadcast.
    """
    _refuse_options(attn_mask, dropout_p)
    leading = query.shape[:-3]
    if not query.dim() == key.dim() == value.dim() >= 2 or not key.shape[:-3] == value.shape[:-3] == leading:
        shapes = f"query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}"
        raise UsageError(f"attention does not broadcast {shapes}", "Expand them to the same leading axes.")
    q, k, v = (_four_axes(tensor) for tensor in (query, key, value))
    if q.shape[1] != k.shape[1] and not enable_gqa:
        raise UsageError(
            f"attention: {q.shape[1]} heads and {k.shape[1]} key heads", "Pass enable_gqa=True to share key heads."
        )
    seq_len, kv_len = q.shape[2], k.shape[2]
    if is_causal and seq_len < kv_len:
        k, v = k[:, :, :seq_len], v[:, :, :seq_len]
    if is_causal and seq_len > kv_len:
        triangle = attention(q[:, :, :kv_len], k, v, causal=True, scale=scale)
        below = attention(q[:, :, kv_len:], k, v, scale=scale)
        o = torch.cat((triangle, below), 2)
    else:
        o = attention(q, k, v, causal=is_causal, scale=scale)
    return o.reshape(query.shape)


def _refuse_options(mask: torch.Tensor | None, dropout: float) -> None:
    if mask is not None:
        raise UsageError("attention takes no mask", f"Use is_causal=True for a causal one, {SDPA} or FlexAttention for others.")
    if dropout:
        raise UsageError(f"attention has no dropout, dropout_p is {dropout}", f"Use 0.0, or {SDPA}.")


def _four_axes(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view [batch, heads, length, head_dim].

    Further leading axes become one, missing ones have size 1.
    """
    if tensor.dim() > 4:
        return tensor.flatten(0, -4)
    return tensor[(None,) * (4 - tensor.dim())]
