"""Train Hugging Face's GPT-2, with random weights, by a choice of attention.

The model is transformers' own, without dropout. Matmuls run in bfloat16 by autocast; weights and optimizer are float32.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from ioaware.bench.training.training_record import TrainingPoint
from ioaware.bench.training.training_text import draw_batch, standard_library_text
from ioaware.kernels.attention.pytorch.huggingface import register_with_transformers

ATTENTIONS = ("eager", "sdpa", "ioaware")
LEARNING_RATE = 3e-4


@dataclass(frozen=True, slots=True)
class Size:
    """Layers, heads and width of a GPT-2."""

    layers: int
    heads: int
    width: int


SIZES = {"small": Size(12, 12, 768), "medium": Size(24, 16, 1024), "tiny": Size(2, 2, 32)}
"""`tiny` is for trials."""


class Trainer:
    """A model with its optimizer and data, on a device."""

    def __init__(self, point: TrainingPoint, device: str = "cuda") -> None:
        self.point, self.device = point, device
        self.model: Any = _model(point, device)
        fused = device == "cuda"
        self.optimizer: Any = torch.optim.AdamW(self.model.parameters(), LEARNING_RATE, (0.9, 0.95), fused=fused)
        self.generator = torch.Generator().manual_seed(point.seed)
        self.text = torch.frombuffer(bytearray(standard_library_text()), dtype=torch.uint8)
        self.first = self.batch()

    def batch(self) -> torch.Tensor:
        """Return the next batch, [batch, seq_len]."""
        drawn = draw_batch(self.text, self.point.batch, self.point.seq_len, self.generator)
        return drawn.pin_memory().to(self.device, non_blocking=True) if self.device == "cuda" else drawn

    def use(self, attention: str) -> None:
        """Make the model run with this attention from now on."""
        self.model.set_attn_implementation(attention)

    def loss(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the loss of predicting each next token, by autocast."""
        with self._autocast():
            return self.model(tokens, labels=tokens, use_cache=False).loss

    def step(self) -> torch.Tensor:
        """Make one step of training on the next batch; return its loss on the device."""
        loss = self.loss(self.batch())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def loss_error(self, attention: str) -> float:
        """Return the relative error of the first batch's loss against float32 by SDPA."""
        with torch.no_grad():
            self.use("sdpa")
            exact = float(self.model(self.first, labels=self.first, use_cache=False).loss)
            self.use(attention)
            return abs(float(self.loss(self.first)) - exact) / exact

    def _autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device, torch.bfloat16)


MakeTrainer = Callable[[TrainingPoint], Trainer]


def _model(point: TrainingPoint, device: str) -> Any:
    """Return the model with random weights of the point's seed, ready to train."""
    register_with_transformers()
    from transformers import GPT2Config, GPT2LMHeadModel  # pyright: ignore[reportMissingImports]

    size = SIZES[point.model]
    config = GPT2Config(
        n_layer=size.layers,
        n_head=size.heads,
        n_embd=size.width,
        n_positions=point.seq_len,
        attn_pdrop=0.0,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
    )
    torch.manual_seed(point.seed)
    with torch.device(device):
        return GPT2LMHeadModel(config).train()
