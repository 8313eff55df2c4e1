"""Make seeded inputs of attention, Q, K and V, of several distributions."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch

Distribution = Literal["random", "large-logit", "constant-row", "masked"]
DISTRIBUTIONS: tuple[Distribution, ...] = get_args(Distribution)


def attention_inputs(
    batch: int,
    heads: int,
    seq_len: int,
    kv_len: int,
    head_dim: int,
    *,
    dtype: torch.dtype,
    device: str = "cpu",
    distribution: Distribution = "random",
    seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return contiguous q, k and v.

    q is [batch, heads, seq_len, head_dim]; k and v are [batch, heads, kv_len, head_dim].

    random: standard normal. large-logit: logits of standard deviation 30, whose exponentials overflow float32 without the
    running maximum. constant-row: all keys equal, so that every row of S is constant and O is the mean of V. masked: the
    first half of the keys has logits 110 below the others', as with an additive mask: their weight underflows float32.
    """
    place = device if torch.cuda.is_available() else "cpu"  # a fake GPU draws no numbers
    generator = torch.Generator(place).manual_seed(seed)
    q, k, v = (
        torch.randn((batch, heads, length, head_dim), generator=generator, dtype=dtype, device=place)
        for length in (seq_len, kv_len, kv_len)
    )
    if distribution == "large-logit":
        q, k = q * math.sqrt(30), k * math.sqrt(30)
    elif distribution == "constant-row":
        k = k[:, :, :1].expand_as(k).contiguous()
    elif distribution == "masked":
        q[..., 0] = 10.0
        k[..., 0] = torch.where(torch.arange(kv_len, device=place) < kv_len // 2, -11.0 * math.sqrt(head_dim), 0.0).to(dtype)
    return q.to(device), k.to(device), v.to(device)
