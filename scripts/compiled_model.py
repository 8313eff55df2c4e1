"""A decoder layer of a language model under `torch.compile`, as a target."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn


class Layer(nn.Module):
    """Attention and a gated MLP, each behind an RMS norm, as in Llama."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate_up, self.down = nn.Linear(width, 8 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output, of the shape of its input."""
        q, k, v = self.qkv(self.attention_norm(x)).chunk(3, dim=-1)
        parts = [one.unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in (q, k, v)]
        attended = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


def decoder_layer(
    batch: int = 2, seq_len: int = 256, width: int = 512, heads: int = 8, device: str = "cuda"
) -> Callable[[], object]:
    """Return a call of the compiled layer without gradients."""
    layer = Layer(width, heads).to(device=device, dtype=torch.bfloat16).requires_grad_(requires_grad=False)
    x = torch.randn(batch, seq_len, width, device=device, dtype=torch.bfloat16)
    compiled = torch.compile(layer, fullgraph=True, dynamic=False)
    return lambda: compiled(x)
