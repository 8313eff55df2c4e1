"""Train one layer of attention on a rank's share of a batch, for a test of ranks."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ioaware.kernels.attention import attention
from ioaware.tracing.interpreter import interpret_kernels

HEADS, WIDTH = 2, 32


class Layer(nn.Module):
    """Causal self-attention of x [batch, seq_len, WIDTH]."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.project(x).unflatten(-1, (3, HEADS, WIDTH // HEADS))  # [batch, seq_len, 3, heads, head_dim]
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind()
        return attention(q, k, v, causal=True)


def layer_and_batch() -> tuple[Layer, torch.Tensor]:
    torch.manual_seed(0)
    return Layer(), torch.randn(4, 20, WIDTH)


def gradients(model: nn.Module, x: torch.Tensor) -> list[float]:
    """Return the gradients of the mean square of the model's output, flat."""
    with interpret_kernels():
        model(x).square().mean().backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]).tolist()


def step(rank: int, ranks: int) -> list[float]:
    """Return the gradients that the rank holds after the exchange."""
    layer, x = layer_and_batch()
    return gradients(DistributedDataParallel(layer), x.chunk(ranks)[rank])
