"""What the targets build their inputs with, and how they run backward."""

from __future__ import annotations

from typing import Any

import torch


def normal(*shape: int, device: str, dtype: torch.dtype = torch.bfloat16, grad: bool = False) -> torch.Tensor:
    """Normally distributed numbers.

    Random, since a constant would let the hardware compress.
    """
    return torch.randn(*shape, device=device, dtype=dtype).requires_grad_(grad)


def backward(outputs: Any, *inputs: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """Gradients of the inputs for ones as the gradients of the outputs.

    Nothing is accumulated.
    """
    given: list[Any] = [*outputs] if isinstance(outputs, tuple) else [outputs]
    tensors: list[torch.Tensor] = [tensor for tensor in given if isinstance(tensor, torch.Tensor) and tensor.requires_grad]
    return torch.autograd.grad(tensors, inputs, [torch.ones_like(tensor) for tensor in tensors], allow_unused=True)


def one_configuration(kernel: Any) -> Any:
    """Leave an autotuned kernel its first configuration only.

    A measurement then runs what a derivation derives.
    """
    kernel.configs = kernel.configs[:1]
    return kernel
